//! Long lists in the output of `{:?}`.

use std::fmt;

/// Values of which `{:?}` shows the first ones.
pub(crate) struct First<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Debug> fmt::Debug for First<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough for the images and masks of examples.
        const SHOWN: usize = 64;
        let mut list = f.debug_list();
        list.entries(self.0.iter().take(SHOWN));
        if self.0.len() > SHOWN { list.finish_non_exhaustive() } else { list.finish() }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Filter, Image, Mask, Problem, VariantChoice};

    #[test]
    fn large_images_and_masks_are_short() {
        let image = Image::from_fn(3, 2, |x, y| (x + y) as f32).unwrap();
        let expected = "Image { width: 3, height: 2, channels: 1, values: [0.0, 1.0, 2.0, 1.0, 2.0, 3.0] }";
        assert_eq!(format!("{image:?}"), expected);
        let mask = Mask::new(1, 2, vec![0.5, 2.0]).unwrap();
        assert_eq!(format!("{mask:?}"), "Mask { width: 1, height: 2, coefficients: [0.5, 2.0] }");

        let image = Image::<u8>::zeros(2000, 1000, 3).unwrap();
        let text = format!("{image:?}");
        assert!(text.starts_with("Image { width: 2000, ") && text.ends_with(", 0, ..] }"), "{text}");
        let filter = Filter::new(Mask::new(101, 101, vec![0.25; 101 * 101]).unwrap());
        let problem = Problem::new(2000, 1000, &filter).unwrap();
        let prepared = Device::cpu().prepare(&problem, VariantChoice::default()).unwrap();
        for text in [text, format!("{filter:?}"), format!("{prepared:?}"), format!("{problem:?}")] {
            assert!(text.len() < 3000, "{text}");
        }
    }
}
