//! May it pass: who is calling, and with what rights.
