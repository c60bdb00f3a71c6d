//! The position of masks that have no middle.

use super::*;

/// `--box` against `scipy.ndimage.uniform_filter(a, size=(rows, columns), mode="mirror")` of SciPy 1.17.1, times the
/// number of pixels. `cv2.blur(a, (columns, rows), borderType=BORDER_REFLECT_101)` of OpenCV 5.0 on f32 gives the same.
#[test]
fn even_boxes_lie_as_in_scipy_and_opencv() {
    let expected: [(usize, usize, [u16; 30]); 4] = [
        (
            2,
            2,
            [
                269, 269, 335, 441, 587, 517, 269, 269, 335, 441, 587, 517, 511, 511, 373, 275, 473, 455, 457, 457,
                371, 325, 319, 353, 363, 363, 329, 591, 637, 467,
            ],
        ),
        (
            4,
            2,
            [
                780, 780, 708, 716, 1060, 972, 780, 780, 708, 716, 1060, 972, 726, 726, 706, 766, 906, 870, 874, 874,
                702, 866, 1110, 922, 820, 820, 700, 916, 956, 820,
            ],
        ),
        (
            2,
            5,
            [
                761, 888, 1013, 1136, 1261, 1388, 761, 888, 1013, 1136, 1261, 1388, 945, 1098, 1045, 1042, 989, 1142,
                901, 1080, 849, 976, 745, 924, 885, 1090, 1193, 1194, 1297, 1502,
            ],
        ),
        (
            6,
            6,
            [
                3357, 3357, 3695, 3603, 3783, 3745, 3357, 3357, 3695, 3603, 3783, 3745, 3487, 3487, 3877, 3889, 4173,
                4443, 3481, 3481, 3667, 3783, 3915, 4237, 3595, 3595, 3833, 3797, 3777, 3895,
            ],
        ),
    ];
    let place = Place::new();
    place.write("a.npy", Image::from_fn(6, 5, |x, y| ((x * x * 37 + y * y * 91 + x * y * 13) % 256) as u8).unwrap());
    for (rows, columns, sums) in expected {
        let size = format!("{rows}x{columns}");
        for operation in ["convolve", "correlate"] {
            let args = ["a.npy", "-o", "b.npy", "--overwrite", "--output-type", "f32", "--border", "mirror"];
            place.filter(&[&args[..], &["--box", &size, "--op", operation]].concat()).quietly();
            for (&found, sum) in place.read_f32("b.npy").values().iter().zip(sums) {
                let expected = f32::from(sum) / (rows * columns) as f32;
                assert!((found - expected).abs() < 1e-4, "{size}, {operation}: {found}, not {expected}");
            }
        }
    }
}

/// An anchor that is given is taken as it is.
#[test]
fn an_anchor_moves_a_box() {
    let place = Place::new();
    place.write("a.npy", Image::new(4, 1, 1, vec![1.0_f32, 2.0, 4.0, 8.0]).unwrap());
    let args = ["a.npy", "-o", "b.npy", "--overwrite", "--box", "1x2", "--op", "correlate"];
    for (anchor, expected) in [("0,0", [1.5, 3.0, 6.0, 6.0]), ("0,1", [1.5, 1.5, 3.0, 6.0])] {
        place.filter(&[&args[..], &["--anchor", anchor]].concat()).quietly();
        assert_eq!(place.read_f32("b.npy").values(), expected, "{anchor}");
    }
}

/// A blur leaves a flat picture as it is, up to its edges.
#[test]
fn edges_keep_their_brightness() {
    let place = Place::new();
    place.write("flat.png", Image::new(20, 10, 3, vec![200_u8; 600]).unwrap());
    for mask in [["--gaussian", "2"], ["--box", "4"], ["--disk", "3"]] {
        place.filter(&[&["flat.png", "-o", "b.png", "--overwrite"], &mask[..]].concat()).quietly();
        assert_eq!(place.read_u8("b.png"), place.read_u8("flat.png"), "{mask:?}");
    }
}
