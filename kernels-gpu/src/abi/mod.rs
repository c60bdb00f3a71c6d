//! What crosses from the host to a kernel: launch parameters, pixel types, borders, and what the PTX declares.

pub mod border;
pub mod image_view;
pub mod kernel;
pub mod params;
pub mod pixel;
