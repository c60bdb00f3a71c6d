//! tmp
/// Which variant is to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VariantChoice {
    /// The preferred one of those that can.
    #[default]
    Auto,
    /// This one, or an error that says why not.
    Exactly(kernels_gpu::entries::Variant),
}
