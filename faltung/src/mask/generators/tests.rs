use super::*;

fn response(mask: &Mask, value: impl Fn(f64, f64) -> f64) -> f64 {
    // A convolution at the point (0, 0).
    let (rows, columns) = (mask.height() / 2, mask.width() / 2);
    let mut sum = 0.0;
    for k in 0..mask.height() {
        for l in 0..mask.width() {
            sum += f64::from(mask.at(k, l)) * value(columns as f64 - l as f64, rows as f64 - k as f64);
        }
    }
    sum
}

#[test]
fn derivatives_are_positive_where_values_grow() {
    for (mask, x, y) in [
        (Mask::sobel(Axis::X), 8.0, 0.0),
        (Mask::sobel(Axis::Y), 0.0, 8.0),
        (Mask::scharr(Axis::X), 32.0, 0.0),
        (Mask::scharr(Axis::Y), 0.0, 32.0),
        (Mask::prewitt(Axis::X), 6.0, 0.0),
        (Mask::prewitt(Axis::Y), 0.0, 6.0),
        (Mask::emboss(), 6.0, 6.0),
    ] {
        assert_eq!(response(&mask, |x, _| x), x, "{mask:?}");
        assert_eq!(response(&mask, |_, y| y), y, "{mask:?}");
    }
}

#[test]
fn sums_are_as_documented() {
    let ones = [
        Mask::gaussian(0.3, None),
        Mask::gaussian(3.0, None),
        Mask::gaussian(1e-200, Some(1)),
        Mask::average(4, 7),
        Mask::sharpen(2.5),
        Mask::motion(9.5, 30.0),
        Mask::disk(4.3),
        Ok(Mask::emboss()),
    ];
    for mask in ones {
        let mask = mask.unwrap();
        assert!((mask.sum() - 1.0).abs() < 1e-6, "{mask:?}: {}", mask.sum());
    }
    for mask in [Mask::laplacian_of_gaussian(0.7), Mask::laplacian_of_gaussian(3.0), Ok(Mask::laplacian())] {
        let mask = mask.unwrap();
        assert!(mask.sum().abs() < 1e-6, "{mask:?}: {}", mask.sum());
    }
}

#[test]
fn a_gaussian_has_the_formulas_ratios() {
    let mask = Mask::gaussian(2.0, None).unwrap();
    assert_eq!(mask.width(), 17);
    let ratio = f64::from(mask.at(8 + 2, 8 + 1)) / f64::from(mask.at(8, 8));
    assert!((ratio - (-5.0_f64 / 8.0).exp()).abs() < 1e-6, "{ratio}");
}

/// `laplace(x^2 + y^2) = 4`, which a Gaussian does not change.
#[test]
fn the_laplacians_measure_curvature() {
    assert_eq!(response(&Mask::laplacian(), |x, y| x * x + y * y), 4.0);
    let log = Mask::laplacian_of_gaussian(2.0).unwrap();
    let value = response(&log, |x, y| x * x + y * y);
    assert!((value - 4.0).abs() < 0.03, "{value}");
}

#[test]
fn motion_lies_along_its_angle() {
    // Counter-clockwise from the right: 45 degrees runs from the lower left to the upper right.
    let mask = Mask::motion(9.0, 45.0).unwrap();
    let middle = mask.width() / 2;
    assert!(mask.at(middle - 2, middle + 2) > 0.05);
    assert_eq!(mask.at(middle + 2, middle + 2), 0.0);
    assert_eq!(mask, Mask::motion(9.0, 225.0).unwrap());
    assert_eq!(Mask::motion(1.0, 17.0).unwrap(), Mask::identity());
    assert_eq!(Mask::motion(4.0, 180.0).unwrap().coefficients(), [0.125, 0.25, 0.25, 0.25, 0.125]);
}

/// The exact cover of each pixel, against a count of many points.
#[test]
fn a_disk_covers_its_pixels() {
    for radius in [0.2, 0.5, 0.6, 1.0, 1.5, 2.0, 3.7] {
        let mask = Mask::disk(radius).unwrap();
        let middle = mask.width() as f64 / 2.0;
        for (row, column) in (0..mask.height()).flat_map(|row| (0..mask.width()).map(move |column| (row, column))) {
            let steps = 200;
            let point = |corner: usize, step: i32| corner as f64 - middle + (f64::from(step) + 0.5) / f64::from(steps);
            let inside = (0..steps)
                .flat_map(|i| (0..steps).map(move |j| (i, j)))
                .filter(|&(i, j)| point(column, i).hypot(point(row, j)) <= radius)
                .count();
            let expected = inside as f64 / f64::from(steps * steps) / (PI * radius * radius);
            let found = f64::from(mask.at(row, column));
            assert!(
                (found - expected).abs() < 2e-3 / (radius * radius),
                "{radius}, {row}, {column}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn gabor_answers_to_its_stripes() {
    use crate::Gabor;
    let mask = Mask::gabor(&Gabor::new(6.0, 30.0)).unwrap();
    let stripes = |degrees: f64| {
        let (cos, sin) = (degrees.to_radians().cos(), -degrees.to_radians().sin());
        response(&mask, |x, y| (2.0 * PI * (x * cos + y * sin) / 6.0).cos())
    };
    assert!((stripes(30.0) - 0.5).abs() < 0.02, "{}", stripes(30.0));
    assert!(stripes(120.0).abs() < 0.02, "{}", stripes(120.0));
    // With a phase of 90 degrees: positive where values grow along the wave.
    let mask = Mask::gabor(&Gabor { phase: 90.0, ..Gabor::new(6.0, 90.0) }).unwrap();
    assert!(response(&mask, |_, y| -y) > 0.0);
}

#[test]
fn bad_parameters_are_refused() {
    use crate::Gabor;
    let numbers = [
        Mask::gaussian(0.0, None),
        Mask::gaussian(-1.0, None),
        Mask::gaussian(f64::NAN, Some(2)),
        Mask::laplacian_of_gaussian(f64::INFINITY),
        Mask::laplacian_of_gaussian(1e-80),
        Mask::sharpen(f64::NAN),
        Mask::sharpen(1e60),
        Mask::motion(0.5, 0.0),
        Mask::motion(3.0, f64::NAN),
        Mask::disk(0.0),
        Mask::gabor(&Gabor::new(0.0, 0.0)),
        Mask::gabor(&Gabor { aspect: f64::NAN, ..Gabor::new(4.0, 0.0) }),
        Mask::gabor(&Gabor { sigma: Some(-1.0), ..Gabor::new(4.0, 0.0) }),
    ];
    for result in numbers {
        assert!(matches!(result, Err(Error::Number { .. })), "{result:?}");
    }
    let sizes = [
        Mask::gaussian(1e300, None),
        Mask::gaussian(1.0, Some(usize::MAX)),
        Mask::average(usize::MAX, 2),
        Mask::motion(1e300, 45.0),
        Mask::disk(1e9),
        Mask::gabor(&Gabor::new(1e200, 0.0)),
    ];
    for result in sizes {
        assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
    }
    assert!(matches!(Mask::average(0, 3), Err(Error::EmptyMask { .. })));
}

#[test]
fn an_unsharp_mask_is_the_identity_plus_the_difference_from_a_blur() {
    for (sigma, amount, radius) in [(1.5, 0.8, None), (0.4, -3.0, Some(4)), (2.0, 1e20, None), (5.0, -1.0, Some(0))] {
        let (mask, blur) = (Mask::unsharp(sigma, amount, radius).unwrap(), Mask::gaussian(sigma, radius).unwrap());
        assert_eq!((mask.width(), mask.height()), (blur.width(), blur.height()));
        let middle = blur.coefficients().len() / 2;
        for (place, (&found, &blur)) in mask.coefficients().iter().zip(blur.coefficients()).enumerate() {
            let identity = f64::from(u8::from(place == middle));
            let expected = (1.0 + amount) * identity - amount * f64::from(blur);
            let tolerance = 1e-7 * (1.0 + amount.abs());
            assert!((f64::from(found) - expected).abs() <= tolerance, "{sigma} {amount}: {found}, {expected}");
        }
    }
    // A blur of one pixel is none, whatever the amount.
    assert_eq!(Mask::unsharp(1e-3, 1e30, None).unwrap(), Mask::identity());
    assert_eq!(Mask::unsharp(2.0, 0.0, Some(1)).unwrap().coefficients(), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(Mask::unsharp(2.0, -1.0, None).unwrap(), Mask::gaussian(2.0, None).unwrap());
    for (sigma, amount) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY), (1.0, 1e39)] {
        assert!(matches!(Mask::unsharp(sigma, amount, None), Err(Error::Number { .. })), "{sigma} {amount}");
    }
    assert!(matches!(Mask::unsharp(1e9, 1.0, None), Err(Error::TooLarge { .. })));
}

/// A circle within one pixel covers that pixel alone, however small it is.
#[test]
fn a_small_disk_is_one_pixel() {
    for radius in [0.5, 1e-3, 1e-200, f64::from_bits(1)] {
        assert_eq!(Mask::disk(radius).unwrap(), Mask::identity(), "{radius:e}");
    }
    assert_eq!(Mask::disk(0.51).unwrap().width(), 3);
}

#[test]
fn errors_have_short_numbers_and_blame_the_right_parameter() {
    let check = |result: Result<Mask>, text: &str| assert_eq!(result.unwrap_err().to_string(), text);
    check(Mask::gaussian(-1.0, None), "sigma must be a number above 0, not -1");
    check(Mask::gaussian(-1e300, None), "sigma must be a number above 0, not -1e300");
    check(Mask::gaussian(f64::INFINITY, None), "sigma must be finite, not inf");
    let large = "the number of coefficients of a generated mask is 10^19 or more, at most 67108864 is possible";
    check(Mask::gaussian(1e30, None), large);
    check(Mask::motion(1e-300, 0.0), "the length of the motion must be at least 1 pixel, not 1e-300");
    check(Mask::laplacian_of_gaussian(1e-100), "sigma must be such that every coefficient is finite, not 1e-100");
    let fine = crate::Gabor { sigma: Some(2.0), ..crate::Gabor::new(1e-320, 0.0) };
    check(Mask::gabor(&fine), "the wavelength must be such that every coefficient is finite, not 1e-320");
}
