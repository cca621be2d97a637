//! HTML pages of results: the template of all pages and pages of tables and plots ([`page`]), and plots ([`plot`]).

pub mod page;
pub mod plot;
