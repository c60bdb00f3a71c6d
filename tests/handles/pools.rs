//! Calls from within rayon pools. The library itself works in the pool of the thread that calls: while a call waits for
//! its parts, its thread may begin another call.

use std::cell::OnceCell;
use std::sync::{Mutex, PoisonError};

use faltung::{Device, DeviceChoice, DeviceImage, Filter, Image, Prepared};
use rayon::ThreadPoolBuilder;

use super::{Checked, Test, equal, filter, image, on_cpu, prepared, words};

pub(crate) const TESTS: &[Test] = &[
    ("rayon_tasks_of_a_scope", tasks_of_a_scope),
    ("rayon_pool_of_one_thread", pool_of_one_thread),
    ("rayon_thread_local_device", thread_local_device),
];

/// Tasks that a pool is given at once.
const TASKS: usize = 24;

/// What the tasks compute.
struct Work {
    filter: Filter,
    /// A small image, and one that all threads of the pool copy.
    images: [Image<u8>; 2],
    right: [Image<u8>; 2],
}

impl Work {
    fn new() -> Result<Self, String> {
        let (filter, images) = (filter(3, 11), [image(30, 21, 1, 11), image(310, 230, 1, 12)]);
        let right = [on_cpu(&filter, &images[0])?, on_cpu(&filter, &images[1])?];
        Ok(Self { filter, images, right })
    }

    fn prepared(&self, device: &Device) -> Result<[Prepared; 2], String> {
        let of = |image| prepared::<u8, u8>(device, &self.filter, image);
        Ok([of(&self.images[0])?, of(&self.images[1])?])
    }

    /// A task: a call of the device, within which another one may begin.
    fn apply(&self, device: &Device, number: usize) -> Checked {
        // Most are small, so that the emulator has little to do.
        let size = usize::from(number % 8 == 7);
        equal("apply", &device.apply(&self.filter, &self.images[size]).map_err(words)?, &self.right[size])
    }

    /// A task by other calls, two at a time.
    fn run(&self, device: &Device, prepared: &[Prepared; 2], number: usize) -> Checked {
        let size = usize::from(number % 8 == 7);
        let (image, right, prepared) = (&self.images[size], &self.right[size], &prepared[size]);
        let on_device = || {
            let stream = device.stream().map_err(words)?;
            let source = device.upload(image, &stream).map_err(words)?;
            let result: DeviceImage<u8> = prepared.run(&source, &stream).map_err(words)?;
            equal("run", &result.download(&stream).map_err(words)?, right)
        };
        let (first, second) = rayon::join(on_device, || self.apply(device, number));
        first.and(second)
    }
}

/// Runs tasks in the current pool. All end, and the first error is told.
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

fn tasks_of_a_scope(device: &Device) -> Checked {
    let work = Work::new()?;
    let prepared = work.prepared(device)?;
    in_scope(|number| if number % 2 == 0 { work.apply(device, number) } else { work.run(device, &prepared, number) })
}

fn pool_of_one_thread(device: &Device) -> Checked {
    let work = Work::new()?;
    let prepared = work.prepared(device)?;
    let pool = ThreadPoolBuilder::new().num_threads(1).build().map_err(|error| error.to_string())?;
    pool.install(|| work.apply(device, 7))?;
    pool.install(|| in_scope(|number| work.run(device, &prepared, number)))
}

/// Each thread of a pool opens the device for itself. It closes it when the thread ends, after the thread's other values
/// are gone.
fn thread_local_device(device: &Device) -> Checked {
    thread_local! {
        static DEVICE: OnceCell<Device> = const { OnceCell::new() };
    }
    let choice = match device.gpu() {
        Some(gpu) => DeviceChoice::Cuda(gpu.number),
        None if device.backend() == "emulator" => DeviceChoice::Emulator,
        None => DeviceChoice::Cpu,
    };
    let work = Work::new()?;
    let mut threads = Vec::new();
    let pool = ThreadPoolBuilder::new().num_threads(4).spawn_handler(|thread| {
        threads.push(std::thread::Builder::new().spawn(|| thread.run())?);
        Ok(())
    });
    let pool = pool.build().map_err(|error| error.to_string())?;
    let checked = pool.install(|| {
        in_scope(|number| {
            DEVICE.with(|own| {
                // A call that begins within another one finds the same device.
                let own = own.get_or_init(|| Device::select(choice).expect("it is open already"));
                work.apply(own, number)
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
