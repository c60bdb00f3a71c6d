//! The pictures of README.md are what its commands make.
//!
//! `HOST_TEST_WRITE=1 cargo test -p host --test cli pictures` writes them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Ended, Place, data, program};

const README: &str = include_str!("../../README.md");

macro_rules! picture {
    ($name:literal, $arguments:expr) => {
        ($name, &$arguments, include_bytes!(concat!("../../docs/images/", $name)))
    };
}

/// The file, the arguments of its filter, and its bytes.
const PICTURES: [(&str, &[&str], &[u8]); 4] = [
    picture!("coffee.jpg", ["--identity"]),
    picture!("gaussian.jpg", ["--gaussian", "6"]),
    picture!("edges.jpg", ["--sobel", "magnitude"]),
    picture!("emboss.jpg", ["--emboss"]),
];

/// The filters of bytes are exact, and the encoder has no code for some CPUs alone: the files are the same everywhere.
#[test]
fn pictures_of_the_readme_are_those_of_its_commands() {
    let place = Place::new();
    for (name, arguments, committed) in PICTURES {
        let result = place.path(name);
        let mut command = Command::new(program());
        command.args(["filter", "-q", "--device", "cpu", "--quality", "90"]).args(arguments);
        command.arg(data().join("seed_coffee/coffee.png")).arg("-o").arg(&result);
        Ended::from(command.output().expect("the program starts")).quietly();
        let bytes = fs::read(&result).expect("a result");
        if std::env::var_os("HOST_TEST_WRITE").is_some() {
            let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
            fs::write(images.join(name), &bytes).expect("a picture is written");
        } else {
            assert!(bytes == committed, "{name} is not what `host filter {}` makes", arguments.join(" "));
        }
        let filter = arguments.join(" ");
        let is_titled = name == "coffee.jpg" || README.contains(&format!("`{filter}`"));
        assert!(is_titled && README.contains(&format!("(docs/images/{name})")), "README.md has not {name}");
    }
}
