//! The narrow waist: the types and traits by which the four stations meet.
