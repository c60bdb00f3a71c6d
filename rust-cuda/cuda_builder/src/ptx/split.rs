//! Splits one PTX text into modules that a program loads one by one.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use super::features::{Needs, needs};
use super::{Entry, ItemKind, Ptx};

/// A complete PTX text with some of the entries.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name that the caller chose.
    pub name: String,
    /// The kernels of the module.
    pub entries: Vec<Entry>,
    /// The PTX text.
    pub text: String,
}

impl Ptx {
    /// Splits the PTX into modules. `module_of` returns the name of the module of an entry.
    ///
    /// A module has the header, its entries, and every item that these use directly or indirectly, in the original
    /// order. A function or variable may be in several modules. One that no entry uses is in none. The modules are
    /// sorted by name.
    ///
    /// If a module has instructions that the header's target or version lacks, the header of the module names the
    /// oldest ones that have them.
    pub fn split(&self, module_of: impl Fn(&str) -> String) -> Vec<Module> {
        let mut modules: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for entry in self.entries() {
            modules.entry(module_of(&entry.name)).or_default().push(entry.clone());
        }
        modules
            .into_iter()
            .map(|(name, entries)| {
                let text = self.text_with(entries.iter().map(|entry| entry.name.as_str()));
                Module { name, entries, text }
            })
            .collect()
    }

    /// The header and the items that `names` need.
    fn text_with<'a>(&'a self, names: impl Iterator<Item = &'a str>) -> String {
        let mut to_visit: Vec<&str> = names.collect();
        let mut needed: HashSet<&str> = to_visit.iter().copied().collect();
        while let Some(name) = to_visit.pop() {
            // A declaration and its definition have the same name.
            for used in self.items.iter().filter(|item| item.name == name).flat_map(|item| &item.uses) {
                if needed.insert(used) {
                    to_visit.push(used);
                }
            }
        }
        let items = || self.items.iter().filter(|item| needed.contains(item.name.as_str()));
        let header = Needs::of_header(&self.version, &self.target);
        let needs = items().flat_map(|item| &item.instructions).map(|name| needs(name)).fold(header, Needs::and);
        // A header that suffices stays as it is.
        let (version, target) = if needs == header {
            (self.version.clone(), self.target.clone())
        } else {
            (needs.version(), needs.to_string())
        };
        let mut text = format!(".version {version}\n.target {target}\n.address_size {}\n", self.address_size);
        for item in items() {
            let gap = if item.kind == ItemKind::Variable { "" } else { "\n" };
            writeln!(text, "{gap}{}", item.text).expect("a String takes everything");
        }
        text
    }
}
