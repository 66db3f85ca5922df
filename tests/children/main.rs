//! Children as real processes: how they are started, how they talk, and above all how they end.

mod kit;

mod ends;
mod leaks;
mod orphans;
mod roles;
mod starts;
mod talks;
