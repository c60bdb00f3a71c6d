//! The meaning of the values of a file.

/// The meaning of the values of a picture, by its file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Colours as they are shown. The last of two or four channels is alpha. The colours are multiplied by it only if
    /// [`Metadata::premultiplied`](super::Metadata::premultiplied) says so.
    #[default]
    Colours,
    /// Colours in linear light, multiplied by the alpha in the last of two or four channels: OpenEXR.
    LinearLight,
    /// Numbers, all channels alike: `.npy`.
    Array,
}

impl Content {
    /// Whether the last of so many channels is alpha.
    ///
    /// ```
    /// use host::files::Content;
    ///
    /// assert!(Content::Colours.has_alpha(4) && !Content::Colours.has_alpha(3) && !Content::Array.has_alpha(4));
    /// ```
    #[must_use]
    pub fn has_alpha(self, channels: usize) -> bool {
        self != Self::Array && matches!(channels, 2 | 4)
    }
}
