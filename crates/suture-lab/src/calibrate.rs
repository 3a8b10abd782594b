//! Calibration: the same repair by real agents and on the fluid network, side by side.
//!
//! Place: the whole life of a repair, twice. A simulator is worth what it predicts; here its
//! prediction is held against the product, with the same coordinator deciding in both.

pub mod measure;
pub mod predict;
pub mod scenario;
