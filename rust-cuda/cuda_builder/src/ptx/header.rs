//! Compares the header of a text with its instructions. The compiler writes the header without a look at inline
//! assembly, so the header may be too old.

use super::Ptx;
use super::features::{Needs, needs};

/// An instruction that the architecture of a text lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerInstruction {
    /// The kernel or the function that has it.
    pub item: String,
    /// The instruction with its modifiers, such as `cp.async.cg.shared.global`.
    pub instruction: String,
    /// The oldest architecture that has it, such as `sm_80`.
    pub target: String,
}

impl Ptx {
    fn header(&self) -> Needs {
        Needs::of_header(&self.version, &self.target)
    }

    /// The instructions that `.target` lacks, each once for each item.
    #[must_use]
    pub fn newer_instructions(&self) -> Vec<NewerInstruction> {
        let header = self.header();
        let mut newer = Vec::new();
        for item in &self.items {
            for instruction in &item.instructions {
                let needs = needs(instruction);
                let found = NewerInstruction {
                    item: item.name.clone(),
                    instruction: instruction.clone(),
                    target: needs.to_string(),
                };
                if needs.has_newer_target(header) && !newer.contains(&found) {
                    newer.push(found);
                }
            }
        }
        newer
    }

    /// The text of this PTX, with a `.version` that has all instructions. A version that suffices stays.
    pub(crate) fn with_version(&self, text: String) -> String {
        let instructions = self.items.iter().flat_map(|item| &item.instructions);
        let version = instructions.map(|name| needs(name)).fold(self.header(), Needs::and).version();
        let line = format!(".version {}", self.version);
        if version == self.version { text } else { text.replacen(&line, &format!(".version {version}"), 1) }
    }
}

/// The text of an error: a line for each instruction.
pub(crate) fn listed(newer: &[NewerInstruction]) -> String {
    let line = |NewerInstruction { item, instruction, target }: &_| format!("  {item}: {instruction} needs {target}");
    newer.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_instructions_are_listed_and_the_version_is_raised() {
        let text = "//\n// .version\n.version 6.0\n.target sm_70\n.address_size 64\n\
            .entry copies() { cp.async.ca.shared.global [a], [b], 4; cp.async.ca.shared.global [a], [b], 4; ret; }\n\
            .entry sleeps() { .reg .b32 a; .reg .b32 b; nanosleep.u32 a; ret; }\n";
        let text = text.replace("copies() {", "copies() { .reg .b32 a; .reg .b64 b;");
        let ptx = Ptx::parse(&text).unwrap();
        let newer = ptx.newer_instructions();
        assert_eq!(listed(&newer), "  copies: cp.async.ca.shared.global needs sm_80");
        assert_eq!(ptx.with_version(text.clone()), text.replace(".version 6.0", ".version 7.0"));

        let sleeps = text.replace("cp.async.ca.shared.global [a], [b], 4;", "");
        let ptx = Ptx::parse(&sleeps).unwrap();
        assert_eq!(ptx.newer_instructions(), []);
        assert_eq!(ptx.with_version(sleeps.clone()), sleeps.replace(".version 6.0", ".version 6.3"));
        let new = sleeps.replace(".version 6.0", ".version 8.7");
        assert_eq!(Ptx::parse(&new).unwrap().with_version(new.clone()), new);
    }

    #[test]
    fn a_target_of_one_architecture_is_newer_than_the_architecture() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n.entry e() { wgmma.fence.sync.aligned; ret; }\n";
        assert_eq!(
            listed(&Ptx::parse(text).unwrap().newer_instructions()),
            "  e: wgmma.fence.sync.aligned needs sm_90a"
        );
        assert_eq!(Ptx::parse(&text.replace("sm_90", "sm_90a")).unwrap().newer_instructions(), []);
    }
}
