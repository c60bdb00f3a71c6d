//! The description of a task: what a result was computed from. It is kept beside the result, with its hash.

use faltung::{PixelType, Problem};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The description of a task: the filter, the source and the type of the result. Equal tasks have equal results, but
/// for results of `f32` that are not exact: those may differ within the error bound between devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    description: Value,
    hash: String,
}

/// The version of the description. It changes with everything that changes results.
const VERSION: u32 = 1;

impl Task {
    /// The task of a problem on a source.
    #[must_use]
    pub fn new(problem: &Problem, source: Value, output: PixelType) -> Self {
        let window = problem.window();
        let coefficients: Vec<u8> = window.coefficients().iter().flat_map(|value| value.to_le_bytes()).collect();
        let (scale, offset) = problem.scale_and_offset();
        let description = json!({
            "version": VERSION,
            "source": source,
            "type": output.name(),
            // The coefficients are in window order, so the operation needs no field of its own.
            "mask": {
                "height": window.height(),
                "width": window.width(),
                "origin": [problem.origin().0, problem.origin().1],
                "sha256": hexadecimal(&coefficients),
            },
            "border": problem.border().to_string(),
            "scale": scale,
            "offset": offset,
            "accuracy": problem.accuracy().name(),
        });
        let hash = hexadecimal(description.to_string().as_bytes());
        Self { description, hash }
    }

    /// What an array's attributes hold of the task.
    #[must_use]
    pub fn attribute(&self) -> Value {
        json!({ "task": self.description, "sha256": self.hash })
    }

    /// Whether an attribute is that of this task.
    #[must_use]
    pub fn is_of(&self, attribute: &Value) -> bool {
        attribute["sha256"] == self.hash.as_str() && attribute["task"] == self.description
    }

    /// Which parts of another task differ from this one's, in words.
    #[must_use]
    pub fn difference(&self, attribute: &Value) -> String {
        let Some(theirs) = attribute["task"].as_object() else {
            return "exists, and its attributes name no task of this program".to_owned();
        };
        let ours = self.description.as_object().into_iter().flatten();
        let differ: Vec<_> = ours.filter(|(key, value)| theirs.get(*key) != Some(value)).collect();
        let parts = differ.iter().map(|(key, value)| {
            let found = theirs.get(*key).unwrap_or(&Value::Null);
            format!("{key} {found}, not {value}")
        });
        let parts: Vec<_> = parts.collect();
        match parts.is_empty() {
            true => "holds the results of another task: its hash is another".to_owned(),
            false => format!("holds the results of another task: {}", parts.join("; ")),
        }
    }
}

/// The SHA-256 of some bytes.
fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use faltung::{Accuracy, Border, Filter};

    use super::*;

    fn task(filter: &Filter, name: &str) -> Task {
        Task::new(&Problem::new(10, 10, filter).unwrap(), json!({ "name": name }), PixelType::U8)
    }

    #[test]
    fn each_part_tells_tasks_apart() {
        let filter = Filter::gaussian(2.0);
        let first = task(&filter, "a");
        let attribute = first.attribute();
        assert!(first.is_of(&attribute) && task(&filter, "a").is_of(&attribute));
        let others = [
            (Filter::gaussian(2.5), "mask"),
            (filter.clone().border(Border::Wrap), "border"),
            (filter.clone().scale(2.0), "scale"),
            (filter.clone().offset(1.0), "offset"),
            (filter.clone().anchor(1, 1), "mask"),
            (filter.clone().accuracy(Accuracy::Exact), "accuracy"),
        ];
        for (other, word) in others {
            let other = task(&other, "a");
            assert!(!other.is_of(&attribute));
            assert!(other.difference(&attribute).contains(&format!("task: {word} ")), "{word}");
        }
        let other = task(&filter, "b");
        assert!(!other.is_of(&attribute) && other.difference(&attribute).contains("task: source "));
        assert!(!first.is_of(&Value::Null) && first.difference(&Value::Null).contains("no task"));
        // A description that was changed, with the old hash.
        let mut changed = attribute.clone();
        changed["task"]["border"] = "wrap".into();
        assert!(!first.is_of(&changed));
    }

    #[test]
    fn the_hash_is_sha_256() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hexadecimal(b"abc"), known);
    }
}
