//! TODO
use super::*;
use crate::{Border, Filter, Mask};
use std::time::Instant;

#[test]
#[ignore = "a measurement"]
fn speed() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for (input, output) in [(PixelType::F32, PixelType::F32), (PixelType::U8, PixelType::U8), (PixelType::U8, PixelType::F32)] {
        for k in [15_usize, 21, 31, 63, 127] {
            for n in [512_usize, 2048, 4096] {
                let mut random = fastrand::Rng::with_seed(7);
                let mut c: Vec<f32> = (0..k * k).map(|_| random.f32()).collect();
                let sum: f32 = c.iter().sum();
                c.iter_mut().for_each(|c| *c /= sum);
                let filter = Filter::new(Mask::new(k, k, c).unwrap()).border(Border::Mirror);
                let problem = Problem::new(n, n, &filter).unwrap().with_format(PixelFormat { channels: 1, input, output }).unwrap();
                let cost = Fft::cost(&problem);
                let start = Instant::now();
                let Some(fft) = Fft::new(&problem) else { println!("{input:?} {output:?} {k} {n}: none, cost {cost:.0} of {}", k*k); continue };
                let prepare = start.elapsed().as_secs_f64();
                let source: Vec<u8> = match input { PixelType::F32 => (0..n*n).flat_map(|_| random.f32().to_le_bytes()).collect(), _ => (0..n * n).map(|_| random.u8(..)).collect() };
                let mut words = vec![0.0_f32; n * n];
                if input == PixelType::F32 { words.iter_mut().zip(source.chunks(4)).for_each(|(w, b)| *w = f32::from_le_bytes(b.try_into().unwrap())); }
                let source: &[u8] = if input == PixelType::F32 { crate::image::bytes_of(&words) } else { &source };
                let mut result = vec![0.0_f32; n * n];
                let result = &mut crate::image::bytes_of_mut(&mut result)[..n * n * output.bytes()];
                let mut best = f64::INFINITY;
                let mut runs = 0;
                pool.install(|| { for _ in 0..(if n == 4096 { 4 } else { 10 }) {
                    let start = Instant::now();
                    fft.convolve(&problem, source, result).unwrap();
                    best = best.min(start.elapsed().as_secs_f64());
                    runs += 1;
                }});
                let tally = fft.scratch.drain().iter().fold([0, 0], |a, s| [a[0] + s.tally[0], a[1] + s.tally[1]]);
                let share = tally.map(|t| t as f64 / (runs * n * n) as f64 * 100.0);
                println!("{input:?} {output:?} {k:3} {n:4}: {:.3} Gpix/s, again {:.3} %, direct {:.1} %, tile {}x{} cost {cost:.0} of {}, as direct {:.0}, prepare {:.1} ms",
                    (n * n) as f64 / best * 1e-9, share[0], share[1], fft.size.width, fft.size.height, k * k, 117.0 * best * 1e9 / (n * n) as f64, prepare * 1e3);
            }
        }
    }
}
