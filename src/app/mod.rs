//! The composition root: the only module that knows all stations and joins them.
