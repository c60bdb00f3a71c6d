//! Values beyond the range of a type saturate, and a note says so.

use super::*;

const HELP: &str = "--scale and --offset bring values into the range, --output-type f32 into .tif or .npy keeps them";

#[test]
fn saturation_is_noted() {
    let place = Place::new();
    // A slope of 20 a column, which Sobel's derivative makes 160, up and down.
    place.write("a.png", Image::from_fn(16, 50, |x, _| 20 * x.min(15 - x) as u8 + 40).unwrap());
    let run = |more: &[&str]| place.filter(&[&["a.png", "--overwrite", "-o", "b.tif"], more].concat());
    // 7 columns of 16 fall; of the 7 that rise, the one at the middle rises by half as much.
    run(&["--sobel", "x"]).with(0, &["note: a.png: 44 % of the result's values saturate (44 % below 0)", HELP]);
    run(&["--sobel", "x", "--scale", "2"])
        .with(0, &["82 % of the", "(44 % below 0, 38 % above the type's greatest value)"]);
    // The same where the values are f32 before.
    run(&["--identity", "--then", "--sobel", "x", "--scale", "2"])
        .with(0, &["82 % of the", "(44 % below 0, 38 % above"]);
    for options in [
        &["--sobel", "x", "-q"][..],
        &["--sobel", "x", "--scale", "0.5", "--offset", "128"],
        &["--sobel", "x", "--output-type", "f32"],
        &["--gaussian", "3"],
        &["--identity"],
    ] {
        run(options).quietly();
    }
}

/// Less than 1 % makes no note.
#[test]
fn little_is_not_worth_a_word() {
    let place = Place::new();
    let with = |dark: usize| Image::from_fn(100, 10, |x, y| if 100 * y + x < dark { 0_u8 } else { 128 }).unwrap();
    place.write("few.png", with(10));
    place.write("more.png", with(11));
    let args = |name| [name, "--overwrite", "-o", "b.png", "--identity", "--offset", "-1"];
    place.filter(&args("few.png")).quietly();
    place.filter(&args("more.png")).with(0, &["note: more.png: 1 % of the result's values saturate (1 % below 0)"]);
}

/// A batch prints the note once.
#[test]
fn a_batch_says_it_in_one_line() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for (name, dark) in [("a", 0), ("b", 40), ("c", 60), ("d", 0)] {
        let image = Image::from_fn(10, 10, |x, y| if 10 * y + x < dark { 0_u8 } else { 128 }).unwrap();
        place.write(&format!("in/{name}.png"), image);
    }
    let args = ["in", "-o", "out/", "--identity", "--offset", "-1"];
    let words =
        "note: more than 1 % of the values saturate in 2 of 4 results (most in that of in/c.png: 60 % below 0): ";
    let ended = place.filter(&args).with(0, &[words, HELP]);
    assert_eq!(ended.stderr.matches("saturate").count(), 1, "{}", ended.stderr);
}
