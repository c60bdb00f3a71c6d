//! The requirements of instructions: the oldest `.target` and `.version` that have them.
//!
//! The compiler does not parse inline assembly, so its header names only the requested target. The table holds the
//! instructions that are newer than `sm_70` and PTX 6.0, from the sections "PTX ISA Notes" and "Target ISA Notes" of
//! the PTX manual. `ptxas` 12.9 accepts each instruction of the tests below with the header of the table, and rejects
//! it with an older one.

use std::fmt;

/// A `.target` and a `.version`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needs {
    /// The number of the architecture: 90 of `sm_90`.
    target: u32,
    /// Whether the code runs on that architecture alone, as that of `sm_90a`.
    is_specific: bool,
    /// The version of PTX: (7, 8) of 7.8.
    version: (u32, u32),
}

impl Needs {
    /// The oldest header that has both.
    pub(super) fn and(self, other: Self) -> Self {
        // The newer target. Of two with the same number, the specific one.
        let (target, is_specific) = (self.target, self.is_specific).max((other.target, other.is_specific));
        Self { target, is_specific, version: self.version.max(other.version).max(least_version(target)) }
    }

    /// The requirement that a header states. An unknown text requires nothing.
    pub(super) fn of_header(version: &str, target: &str) -> Self {
        let number = |text: &str| text.parse().unwrap_or(0);
        let (major, minor) = version.split_once('.').unwrap_or((version, ""));
        let digits = target.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_specific = target.ends_with(|c: char| c.is_ascii_alphabetic());
        Self { target: number(digits), is_specific, version: (number(major), number(minor)) }
    }

    /// Whether a header lacks the target. A specific target runs on its own architecture alone.
    pub(super) fn has_newer_target(self, header: Self) -> bool {
        (self.target, self.is_specific) > (header.target, header.is_specific)
    }

    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }
}

impl fmt::Display for Needs {
    /// The target as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.target, if self.is_specific { "a" } else { "" })
    }
}

/// An opcode, the modifiers that must all be present, and the target and the version that it then needs.
///
/// `x*` matches every modifier that begins with `x`. Modifiers with dots between match the last ones in this order.
type Row = (&'static str, &'static [&'static str], u32, (u32, u32));

/// An instruction may match several rows. The newest one counts.
const TABLE: &[Row] = &[
    // Matrices of the tensor cores. The shape stands before the types. A row without types matches all of them.
    ("wmma", &["u8"], 72, (6, 3)),
    ("wmma", &["s8"], 72, (6, 3)),
    ("wmma", &["u4"], 75, (6, 3)),
    ("wmma", &["s4"], 75, (6, 3)),
    ("wmma", &["b1"], 75, (6, 3)),
    ("wmma", &["bf16"], 80, (7, 0)),
    ("wmma", &["tf32"], 80, (7, 0)),
    ("wmma", &["f64"], 80, (7, 0)),
    ("mma", &[], 70, (6, 4)),
    ("mma", &["m8n8k4", "f64"], 80, (7, 0)),
    ("mma", &["m16n8k8"], 75, (6, 5)),
    ("mma", &["m16n8k16"], 80, (7, 0)),
    ("mma", &["m8n8k16"], 75, (6, 5)),
    ("mma", &["m16n8k32"], 80, (7, 0)),
    ("mma", &["m8n8k32"], 75, (6, 5)),
    ("mma", &["m16n8k64"], 80, (7, 0)),
    ("mma", &["m8n8k128"], 75, (7, 0)),
    ("mma", &["m16n8k128"], 80, (7, 0)),
    ("mma", &["m16n8k256"], 80, (7, 0)),
    ("mma", &["m16n8k4"], 80, (7, 0)),
    ("mma", &["and"], 80, (7, 1)),
    ("mma", &["bf16"], 80, (7, 0)),
    ("mma", &["tf32"], 80, (7, 0)),
    ("mma", &["m16n8k4", "f64"], 90, (7, 8)),
    ("mma", &["m16n8k8", "f64"], 90, (7, 8)),
    ("mma", &["m16n8k16", "f64"], 90, (7, 8)),
    ("mma", &["e4m3"], 89, (8, 4)),
    ("mma", &["e5m2"], 89, (8, 4)),
    ("mma", &["sp"], 80, (7, 1)),
    ("ldmatrix", &[], 75, (6, 5)),
    ("movmatrix", &[], 75, (7, 8)),
    ("stmatrix", &[], 90, (7, 8)),
    // Asynchronous copies and their barriers.
    ("cp", &["async"], 80, (7, 0)),
    ("cp", &["async", "bulk"], 90, (8, 0)),
    ("cp", &["reduce", "async", "bulk"], 90, (8, 0)),
    ("mbarrier", &[], 80, (7, 0)),
    ("mbarrier", &["try_wait"], 90, (7, 8)),
    ("mbarrier", &["expect_tx"], 90, (8, 0)),
    ("mbarrier", &["complete_tx"], 90, (8, 0)),
    ("st", &["async"], 90, (8, 1)),
    ("red", &["async"], 90, (8, 1)),
    // Clusters and dependent launches.
    ("barrier", &["cluster"], 90, (7, 8)),
    ("mapa", &[], 90, (7, 8)),
    ("getctarank", &[], 90, (7, 8)),
    ("griddepcontrol", &[], 90, (7, 8)),
    ("elect", &[], 90, (8, 0)),
    ("fence", &["proxy", "async*"], 90, (8, 0)),
    ("multimem", &[], 90, (8, 1)),
    // Conversions.
    ("cvt", &["pack"], 72, (6, 5)),
    ("cvt", &["pack", "u4"], 75, (6, 5)),
    ("cvt", &["pack", "s4"], 75, (6, 5)),
    ("cvt", &["pack", "u2"], 75, (6, 5)),
    ("cvt", &["pack", "s2"], 75, (6, 5)),
    ("cvt", &["relu"], 80, (7, 0)),
    ("cvt", &["bf16"], 80, (7, 0)),
    ("cvt", &["bf16x2"], 80, (7, 0)),
    ("cvt", &["f16x2", "f32"], 80, (7, 0)),
    ("cvt", &["tf32"], 80, (7, 0)),
    ("cvt", &["rn", "tf32"], 90, (7, 8)),
    ("cvt", &["rz", "tf32"], 90, (7, 8)),
    ("cvt", &["f32.bf16"], 80, (7, 1)),
    ("cvt", &["bf16", "f16"], 90, (7, 8)),
    ("cvt", &["bf16", "f64"], 90, (7, 8)),
    ("cvt", &["bf16", "s8"], 90, (7, 8)),
    ("cvt", &["bf16", "u8"], 90, (7, 8)),
    ("cvt", &["bf16", "s16"], 90, (7, 8)),
    ("cvt", &["bf16", "u16"], 90, (7, 8)),
    ("cvt", &["bf16", "s32"], 90, (7, 8)),
    ("cvt", &["bf16", "u32"], 90, (7, 8)),
    ("cvt", &["bf16", "s64"], 90, (7, 8)),
    ("cvt", &["bf16", "u64"], 90, (7, 8)),
    ("cvt", &["e4m3x2"], 89, (8, 1)),
    ("cvt", &["e5m2x2"], 89, (8, 1)),
    // Arithmetic.
    ("min", &["NaN"], 80, (7, 0)),
    ("max", &["NaN"], 80, (7, 0)),
    ("min", &["xorsign"], 86, (7, 2)),
    ("max", &["xorsign"], 86, (7, 2)),
    ("min", &["f16*"], 80, (7, 0)),
    ("max", &["f16*"], 80, (7, 0)),
    ("min", &["bf16*"], 80, (7, 0)),
    ("max", &["bf16*"], 80, (7, 0)),
    ("min", &["relu", "s32"], 90, (8, 0)),
    ("max", &["relu", "s32"], 90, (8, 0)),
    ("fma", &["relu"], 80, (7, 0)),
    ("fma", &["bf16*"], 80, (7, 0)),
    ("abs", &["bf16*"], 80, (7, 0)),
    ("neg", &["bf16*"], 80, (7, 0)),
    ("add", &["bf16*"], 90, (7, 8)),
    ("sub", &["bf16*"], 90, (7, 8)),
    ("mul", &["bf16*"], 90, (7, 8)),
    ("add", &["f32x2"], 100, (8, 6)),
    ("mul", &["f32x2"], 100, (8, 6)),
    ("fma", &["f32x2"], 100, (8, 6)),
    ("tanh", &[], 75, (7, 0)),
    ("tanh", &["bf16*"], 90, (7, 8)),
    ("ex2", &["f16*"], 75, (7, 0)),
    ("ex2", &["bf16*"], 90, (7, 8)),
    ("bmsk", &[], 70, (7, 6)),
    ("szext", &[], 70, (7, 6)),
    // The lanes of a warp.
    ("activemask", &[], 70, (6, 2)),
    ("redux", &[], 80, (7, 0)),
    ("redux", &["f32"], 100, (8, 6)),
    // Memory and its caches.
    ("nanosleep", &[], 70, (6, 3)),
    ("discard", &[], 80, (7, 4)),
    ("applypriority", &[], 80, (7, 4)),
    ("createpolicy", &[], 80, (7, 4)),
    ("ld", &["L1::*"], 70, (7, 4)),
    ("st", &["L1::*"], 70, (7, 4)),
    ("ld", &["L2::64B"], 75, (7, 4)),
    ("ld", &["L2::128B"], 75, (7, 4)),
    ("ld", &["L2::256B"], 80, (7, 4)),
    ("ld", &["L2::cache_hint"], 80, (7, 4)),
    ("st", &["L2::cache_hint"], 80, (7, 4)),
    ("prefetch", &["L2::*"], 80, (7, 4)),
    ("ld", &["b128"], 70, (8, 3)),
    ("st", &["b128"], 70, (8, 3)),
    ("mov", &["b128"], 70, (8, 3)),
    ("atom", &["cas", "b16"], 70, (6, 3)),
    ("atom", &["noftz", "f16"], 70, (6, 3)),
    ("atom", &["noftz", "bf16*"], 90, (7, 8)),
    ("atom", &["b128"], 90, (8, 3)),
    ("red", &["noftz", "f16"], 70, (6, 3)),
    ("red", &["noftz", "bf16*"], 90, (7, 8)),
];

/// Opcodes that exist on one architecture only.
const SPECIFIC: &[(&str, u32, (u32, u32))] =
    &[("wgmma", 90, (8, 0)), ("setmaxnreg", 90, (8, 0)), ("tcgen05", 100, (8, 6))];

/// The oldest version of PTX that has a target.
const TARGETS: &[(u32, (u32, u32))] = &[
    (70, (6, 0)),
    (72, (6, 1)),
    (75, (6, 3)),
    (80, (7, 0)),
    (86, (7, 1)),
    (87, (7, 4)),
    (89, (7, 8)),
    (90, (7, 8)),
    (100, (8, 6)),
    (103, (8, 8)),
    (120, (8, 7)),
    (121, (8, 8)),
];

/// The requirement of an instruction with all of its modifiers.
pub(super) fn needs(instruction: &str) -> Needs {
    let (opcode, modifiers) = instruction.split_once('.').unwrap_or((instruction, ""));
    let has = |wanted: &&str| {
        modifiers.split('.').any(|modifier| match wanted.strip_suffix('*') {
            Some(start) => modifier.starts_with(start),
            None => modifier == *wanted,
        }) || wanted.contains('.') && modifiers.ends_with(*wanted)
    };
    let of_table = TABLE.iter().filter(|row| row.0 == opcode && row.1.iter().all(has));
    let needs = of_table.map(|&(_, _, target, version)| Needs { target, is_specific: false, version });
    let specific = SPECIFIC.iter().filter(|row| row.0 == opcode);
    let specific = specific.map(|&(_, target, version)| Needs { target, is_specific: true, version });
    // The shared memory of other blocks, with any instruction.
    let of_cluster = Needs { target: 90, is_specific: false, version: (7, 8) };
    let of_cluster = Some(of_cluster).filter(|_| has(&"shared::cluster"));
    needs.chain(specific).chain(of_cluster).fold(Needs::default(), Needs::and)
}

/// The oldest version of PTX that has a target.
fn least_version(target: u32) -> (u32, u32) {
    TARGETS.iter().take_while(|(known, _)| *known <= target).map(|(_, version)| *version).last().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Needs, needs};

    /// Each feature alone, and instructions that need nothing newer.
    #[test]
    fn each_feature_alone_has_its_target_and_version() {
        for (instruction, target, version) in [
            // Instructions that cuda_std uses.
            ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", "sm_80", "7.0"),
            ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80", "7.0"),
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "sm_80", "7.0"),
            ("cvt.rn.bf16x2.f32", "sm_80", "7.0"),
            ("cvt.pack.sat.u8.s32.b32", "sm_72", "6.5"),
            ("cp.async.cg.shared.global", "sm_80", "7.0"),
            ("cp.async.commit_group", "sm_80", "7.0"),
            ("cp.async.wait_group", "sm_80", "7.0"),
            // f16 and integer products by their shapes.
            ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "sm_70", "6.4"),
            ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "sm_75", "6.5"),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80", "7.0"),
            ("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", "sm_75", "6.5"),
            ("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.u8.s32", "sm_75", "6.5"),
            ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32", "sm_75", "6.5"),
            ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_80", "7.0"),
            ("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", "sm_90", "7.8"),
            ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", "sm_80", "7.0"),
            ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89", "8.4"),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "sm_75", "6.5"),
            ("stmatrix.sync.aligned.m8n8.x4.shared.b16", "sm_90", "7.8"),
            // Modifiers that are newer than their opcode.
            ("min.NaN.f32", "sm_80", "7.0"),
            ("max.xorsign.abs.f32", "sm_86", "7.2"),
            ("fma.rn.relu.f16x2", "sm_80", "7.0"),
            ("fma.rn.bf16x2", "sm_80", "7.0"),
            ("cvt.rna.tf32.f32", "sm_80", "7.0"),
            ("cvt.rn.relu.f16x2.f32", "sm_80", "7.0"),
            ("cvt.f32.bf16", "sm_80", "7.1"),
            ("cvt.rn.bf16.f32", "sm_80", "7.0"),
            ("cvt.rn.bf16.s32", "sm_90", "7.8"),
            ("cvt.rn.satfinite.e4m3x2.f32", "sm_89", "8.1"),
            ("redux.sync.add.s32", "sm_80", "7.0"),
            ("ld.global.L2::128B.f32", "sm_75", "7.4"),
            ("ld.global.L1::no_allocate.f32", "sm_70", "7.4"),
            ("ld.shared::cluster.f32", "sm_90", "7.8"),
            ("mbarrier.init.shared.b64", "sm_80", "7.0"),
            ("mbarrier.try_wait.shared.b64", "sm_90", "7.8"),
            ("cp.async.bulk.commit_group", "sm_90", "8.0"),
            ("griddepcontrol.wait", "sm_90", "7.8"),
            ("barrier.cluster.arrive", "sm_90", "7.8"),
            ("wgmma.fence.sync.aligned", "sm_90a", "8.0"),
        ] {
            let needs = needs(instruction);
            assert_eq!((needs.to_string().as_str(), needs.version().as_str()), (target, version), "{instruction}");
        }
        for instruction in [
            "ret",
            "bar.sync",
            "bar.warp.sync",
            "shfl.sync.bfly.b32",
            "vote.sync.ballot.b32",
            "min.f32",
            "min.s32",
            "fma.rn.f32",
            "cvt.rni.u8.f32",
            "ld.global.v4.f32",
            "prmt.b32",
            "ld.shared.f32",
            "prefetch.global.L2",
        ] {
            assert_eq!(needs(instruction), Needs::default(), "{instruction}");
        }
    }

    #[test]
    fn a_header_keeps_what_is_newer() {
        let header = Needs::of_header("8.7", "sm_120");
        assert_eq!(header.and(needs("cp.async.wait_all")), header);
        let raised = Needs::of_header("6.0", "sm_70").and(needs("cvt.pack.sat.u8.s32.b32"));
        assert_eq!((raised.to_string(), raised.version()), ("sm_72".to_owned(), "6.5".to_owned()));
        let raised = Needs::of_header("10.0", "sm_75").and(needs("min.NaN.f32"));
        assert_eq!((raised.to_string(), raised.version()), ("sm_80".to_owned(), "10.0".to_owned()));
        let specific = Needs::of_header("8.0", "sm_90a");
        assert_eq!(specific.and(needs("cp.async.bulk.commit_group")).to_string(), "sm_90a");
    }
}
