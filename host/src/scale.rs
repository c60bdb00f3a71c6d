//! A model of how long it takes to filter an image in chunks, and of what limits it.
//!
//! The steps overlap, so the slowest one gives the time:
//!
//! ```text
//! pixels that are computed   H = P ((c + 2 r) / c)²        P pixels, chunks of side c, a mask of radius r
//! pixels that are decoded    D = P ((c + 2 u ⌈r / u⌉) / c)²    parts of side u are decoded whole
//! storage                    (D bi k + P bo k) / disk      bi, bo bytes of a pixel, k coded bytes for a byte of values
//! decoding                   D bi / (cores · decode)
//! encoding                   P bo / (cores · encode)
//! memory                     6 (H bi + P bo) / (machines · memory)
//! transfers                  H (bi + bo) / (machines · link)
//! kernels                    H / (GPUs · kernel)
//! ```
//!
//! Rates are in bytes or pixels a second. `disk` is the rate of the whole storage, the others are those of one core,
//! one machine or one GPU.
//!
//! A value crosses the memory of its machine six times on its way from the storage to the GPU. The decoder reads its
//! bytes. The system clears fresh memory, and the decoder writes the value there. A copy to page-locked memory reads
//! and writes it. The device reads it there. On the way back there are as many crossings.

/// What is to be filtered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleTask {
    /// Pixels of the image.
    pub pixels: f64,
    /// Bytes of a pixel of the image.
    pub input_bytes: f64,
    /// Bytes of a pixel of the result.
    pub output_bytes: f64,
    /// The side of a chunk, which is one file, in pixels.
    pub chunk: f64,
    /// The side of the parts that are decoded alone.
    pub part: f64,
    /// How far the mask reaches from its middle.
    pub radius: f64,
    /// Coded bytes for each byte of values.
    pub coded: f64,
}

/// What it is filtered with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machines {
    /// GPUs of all machines.
    pub gpus: f64,
    /// GPUs of one machine.
    pub gpus_of_a_machine: f64,
    /// Cores of one machine.
    pub cores_of_a_machine: f64,
    /// Bytes a second of the storage that all machines share, read and written.
    pub disk: f64,
    /// Bytes a second that one core decodes.
    pub decode: f64,
    /// Bytes a second that one core encodes.
    pub encode: f64,
    /// Bytes a second that the memory of one machine reads and writes.
    pub memory: f64,
    /// Bytes a second between the memory of one machine and its GPUs, both directions together.
    pub link: f64,
    /// Pixels a second of one GPU's kernel.
    pub kernel: f64,
}

/// A step that every chunk passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The storage reads and writes.
    Storage,
    /// Cores decode.
    Decoding,
    /// Cores encode.
    Encoding,
    /// Cores copy values within a machine's memory.
    Memory,
    /// Values travel to the GPUs and back.
    Transfers,
    /// GPUs compute.
    Kernels,
}

impl Step {
    /// All steps, in the order of [`Prediction::seconds`].
    pub const ALL: [Self; 6] =
        [Self::Storage, Self::Decoding, Self::Encoding, Self::Memory, Self::Transfers, Self::Kernels];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Decoding => "decoding",
            Self::Encoding => "encoding",
            Self::Memory => "memory",
            Self::Transfers => "transfers",
            Self::Kernels => "kernels",
        }
    }
}

/// What the model predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds of each step, if it had nothing to wait for.
    pub seconds: [f64; 6],
    /// Pixels that are computed, for each pixel of the image.
    pub computed: f64,
    /// Pixels that are decoded, for each pixel of the image.
    pub decoded: f64,
    /// Chunks, each of which is one file.
    pub files: f64,
    /// Bytes of one chunk's result, decoded.
    pub chunk_bytes: f64,
}

impl Prediction {
    /// The step that limits the run.
    #[must_use]
    pub fn bound(&self) -> Step {
        let slowest = |best: usize, step: usize| if self.seconds[step] > self.seconds[best] { step } else { best };
        Step::ALL[(1..Step::ALL.len()).fold(0, slowest)]
    }

    /// The time of the run.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.seconds.into_iter().fold(0.0, f64::max)
    }

    /// What to choose otherwise, if something but time will be in the way.
    #[must_use]
    pub fn advice(&self, task: &ScaleTask) -> Vec<String> {
        /// Files with which a file system and its backup cope.
        const MANY_FILES: f64 = 1e7;
        /// A worker holds a chunk several times.
        const LARGE_CHUNK: f64 = (4_u64 << 30) as f64;
        let mut advice = Vec::new();
        if self.files > MANY_FILES {
            let side = (task.pixels / MANY_FILES).sqrt().log2().ceil().exp2();
            advice.push(format!("{:.1e} files are many: chunks of side {side} make fewer than 1e7", self.files));
        }
        if self.chunk_bytes > LARGE_CHUNK {
            let (gib, need) = (self.chunk_bytes / f64::from(1 << 30), 4.0 * self.chunk_bytes / f64::from(1 << 30));
            advice.push(format!("a chunk of {gib:.1} GiB takes some {need:.0} GiB of memory while it is under way"));
        }
        if self.computed > 1.25 {
            advice.push(format!("halos are {:.0} % of the work: larger chunks", 100.0 * (1.0 - 1.0 / self.computed)));
        }
        if self.decoded > 1.5 {
            let more = 100.0 * (self.decoded - 1.0);
            advice.push(format!("{more:.0} % more is decoded than there is: smaller parts, or larger chunks"));
        }
        advice
    }
}

/// How long the task takes.
#[must_use]
pub fn predict(task: &ScaleTask, machines: &Machines) -> Prediction {
    /// How often a value crosses the memory of its machine.
    const CROSSINGS: f64 = 6.0;
    let ScaleTask { pixels, input_bytes, output_bytes, chunk, part, radius, coded } = *task;
    let grown = |halo: f64| ((chunk + 2.0 * halo) / chunk).powi(2);
    let (computed, decoded) = (grown(radius), grown(part * (radius / part).ceil()));
    let count = (machines.gpus / machines.gpus_of_a_machine).ceil();
    let cores = count * machines.cores_of_a_machine;
    let (read, written) = (pixels * decoded * input_bytes, pixels * output_bytes);
    let seconds = [
        (read + written) * coded / machines.disk,
        read / (cores * machines.decode),
        written / (cores * machines.encode),
        CROSSINGS * pixels * (computed * input_bytes + output_bytes) / (count * machines.memory),
        pixels * computed * (input_bytes + output_bytes) / (count * machines.link),
        pixels * computed / (machines.gpus * machines.kernel),
    ];
    let files = (pixels / (chunk * chunk)).ceil();
    Prediction { seconds, computed, decoded, files, chunk_bytes: chunk * chunk * output_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: ScaleTask = ScaleTask {
        pixels: 1e12,
        input_bytes: 2.0,
        output_bytes: 2.0,
        chunk: 4096.0,
        part: 512.0,
        radius: 31.0,
        coded: 0.5,
    };
    const MACHINES: Machines = Machines {
        gpus: 64.0,
        gpus_of_a_machine: 4.0,
        cores_of_a_machine: 32.0,
        disk: 5e9,
        decode: 1e9,
        encode: 2.5e8,
        memory: 2e11,
        link: 1.8e11,
        kernel: 3e11,
    };

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-3, "{found} is not {expected}");
    }

    /// By hand: 1e12 pixels of 2 bytes; (4158 / 4096)² = 1.0305; (5120 / 4096)² = 1.5625; 16 machines, 512 cores.
    #[test]
    fn the_formula_by_hand() {
        let found = predict(&TASK, &MACHINES);
        near(found.computed, 1.0305);
        near(found.decoded, 1.5625);
        let expected = [512.5, 6.1035, 15.625, 7.6143, 1.4313, 0.05367];
        for (found, expected) in found.seconds.into_iter().zip(expected) {
            near(found, expected);
        }
        assert_eq!((found.bound(), found.total()), (Step::Storage, found.seconds[0]));
        near(found.files, 59_605.0);
    }

    /// Each step is the bound where its rate is small, and only its own time changes.
    #[test]
    fn each_rate_can_be_the_bound() {
        let slow: [fn(&mut Machines); 6] = [
            |machines| machines.disk = 1e6,
            |machines| machines.decode = 1e3,
            |machines| machines.encode = 1e3,
            |machines| machines.memory = 1e6,
            |machines| machines.link = 1e6,
            |machines| machines.kernel = 1e4,
        ];
        let usual = predict(&TASK, &MACHINES);
        for (number, (slow, step)) in slow.into_iter().zip(Step::ALL).enumerate() {
            let mut machines = MACHINES;
            slow(&mut machines);
            let found = predict(&TASK, &machines);
            assert_eq!(found.bound(), step);
            let others = (0..Step::ALL.len()).filter(|&other| other != number);
            assert!(others.into_iter().all(|other| found.seconds[other] == usual.seconds[other]));
        }
    }

    /// Twice the pixels take twice the time; 10^15 pixels have too many files, and the advice mends that.
    #[test]
    fn what_breaks_first_is_said() {
        let twice = predict(&ScaleTask { pixels: 2e12, ..TASK }, &MACHINES);
        near(twice.total(), 2.0 * predict(&TASK, &MACHINES).total());
        assert!(predict(&TASK, &MACHINES).advice(&TASK).iter().all(|line| line.contains("decoded")));
        let task = ScaleTask { pixels: 1e15, ..TASK };
        let advice = predict(&task, &MACHINES).advice(&task);
        assert!(advice[0].contains("files are many: chunks of side 16384"), "{advice:?}");
        let task = ScaleTask { chunk: 16_384.0, ..task };
        assert!(predict(&task, &MACHINES).advice(&task).is_empty());
        let task = ScaleTask { chunk: 131_072.0, ..task };
        assert!(predict(&task, &MACHINES).advice(&task)[0].contains("GiB of memory"));
        let task = ScaleTask { chunk: 256.0, part: 256.0, pixels: 1e10, ..TASK };
        assert!(predict(&task, &MACHINES).advice(&task).iter().any(|line| line.contains("larger chunks")));
    }
}
