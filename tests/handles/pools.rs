//! Calls from within rayon pools. The library works in the pool of the calling thread. While a call waits for its
//! parts, its thread may begin another call.

use std::cell::OnceCell;
use std::sync::{Mutex, PoisonError};

use faltung::{Device, DeviceChoice, DeviceImage, Filter, Image, Prepared};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Checked, Test, equal, filter, image, on_cpu, prepared, words};

pub(crate) const TESTS: &[Test] = &[
    ("rayon_tasks_of_a_scope", tasks_of_a_scope),
    ("rayon_pool_of_one_thread", pool_of_one_thread),
    ("rayon_thread_local_device", thread_local_device),
];

/// Tasks that a pool is given at once.
const TASKS: usize = 48;
/// Threads of a pool. They are so many that a thread may take a part of another thread's call, and within it begin
/// another task.
const THREADS: usize = 8;

/// What a task computes.
struct Work {
    filter: Filter,
    image: Image<f32>,
    right: Image<f32>,
    prepared: Prepared,
}

impl Work {
    fn new(device: &Device, filter: Filter, image: Image<f32>) -> Result<Self, String> {
        let (right, prepared) = (on_cpu(&filter, &image)?, prepared::<f32, f32>(device, &filter, &image)?);
        Ok(Self { filter, image, right, prepared })
    }

    /// A small image, and one that all threads of the pool copy or compute. Its filter gives the emulator little to do.
    fn both(device: &Device) -> Result<[Self; 2], String> {
        Ok([
            Self::new(device, filter(3, 11), image(30, 21, 1, 11))?,
            Self::new(device, filter(1, 12), image(330, 250, 1, 12))?,
        ])
    }

    /// A task: a call of the device, within which another one may begin.
    fn apply(&self, device: &Device) -> Checked {
        equal("apply", &device.apply(&self.filter, &self.image).map_err(words)?, &self.right)
    }

    /// A task by other calls, two at a time.
    fn run(&self, device: &Device) -> Checked {
        let on_device = || {
            let stream = device.stream().map_err(words)?;
            let source = device.upload(&self.image, &stream).map_err(words)?;
            let result: DeviceImage<f32> = self.prepared.run(&source, &stream).map_err(words)?;
            equal("run", &result.download(&stream).map_err(words)?, &self.right)
        };
        let prepared = || equal("Prepared::apply", &self.prepared.apply(&self.image).map_err(words)?, &self.right);
        let (first, second) = rayon::join(on_device, prepared);
        first.and(second)
    }
}

/// A task that only copies: an image of many parts for the threads of the pool.
fn copy(device: &Device, image: &Image<u8>) -> Checked {
    let stream = device.stream().map_err(words)?;
    let on_device = device.upload(image, &stream).map_err(words)?;
    equal("there and back", &on_device.download(&stream).map_err(words)?, image)
}

/// Runs tasks in the current pool. All of them end. Returns the first error.
fn in_scope(task: impl Fn(usize) -> Checked + Sync) -> Checked {
    let wrong = Mutex::new(Vec::new());
    rayon::scope(|scope| {
        for number in 0..TASKS {
            let (task, wrong) = (&task, &wrong);
            scope.spawn(move |_| {
                if let Err(error) = task(number) {
                    wrong.lock().unwrap_or_else(PoisonError::into_inner).push(format!("task {number}: {error}"));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.into_iter().next().map_or(Ok(()), Err)
}

fn pool(threads: usize) -> Result<ThreadPool, String> {
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())
}

fn tasks_of_a_scope(device: &Device) -> Checked {
    let work = Work::both(device)?;
    let large = image::<u8>(4000, 3000, 1, 13);
    let heavy = Work::new(&Device::cpu(), filter(7, 14), image(1500, 1000, 1, 14))?;
    let task = |number: usize| match number % 6 {
        0 | 1 => work[number % 2].apply(device),
        2 | 3 => work[number % 2].run(device),
        _ if device.backend() == "cpu" => heavy.apply(device),
        _ => copy(device, &large),
    };
    // The tasks run in the pool of the process, then in a pool of their own.
    in_scope(task)?;
    let pool = pool(THREADS)?;
    pool.install(|| in_scope(task))?;
    // A CUDA device gives the pool copies alone. Some of these tasks wait for a part that another thread copies.
    pool.install(|| in_scope(|_| copy(device, &large)))
}

fn pool_of_one_thread(device: &Device) -> Checked {
    let work = Work::both(device)?;
    let pool = pool(1)?;
    pool.install(|| work[1].apply(device))?;
    pool.install(|| in_scope(|number| work[usize::from(number % 4 == 3)].run(device)))
}

/// Each thread of a pool opens the device for itself, and closes it when the thread ends.
fn thread_local_device(device: &Device) -> Checked {
    thread_local! {
        static DEVICE: OnceCell<Device> = const { OnceCell::new() };
    }
    let choice = match device.gpu() {
        Some(gpu) => DeviceChoice::Cuda(gpu.number),
        None if device.backend() == "emulator" => DeviceChoice::Emulator,
        None => DeviceChoice::Cpu,
    };
    let work = Work::both(device)?;
    let mut threads = Vec::new();
    let pool = ThreadPoolBuilder::new().num_threads(THREADS).spawn_handler(|thread| {
        threads.push(std::thread::Builder::new().spawn(|| thread.run())?);
        Ok(())
    });
    let pool = pool.build().map_err(|error| error.to_string())?;
    let checked = pool.install(|| {
        in_scope(|number| {
            DEVICE.with(|own| {
                // A call that begins within another one finds the same device.
                let own = own.get_or_init(|| Device::select(choice).expect("it is open already"));
                work[usize::from(number % 4 == 3)].apply(own)
            })
        })
    });
    drop(pool);
    // A pool does not wait for its threads, which have the devices.
    for thread in threads {
        thread.join().map_err(super::message)?;
    }
    checked
}
