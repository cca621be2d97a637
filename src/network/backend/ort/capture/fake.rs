//! A card that exists in tests only. It computes something simple from its inputs, and fails like a real one when
//! captures overlap with anything: errors 900 and 901, as seen on an H100.

use std::{sync::Arc, thread, time::Duration};

use parking_lot::Mutex;

use super::stream::{Buffers, DeviceStream};

/// Places for moves of a position.
pub const SLOTS: usize = 256;

/// The state that all streams of a card share.
#[derive(Default)]
struct State {
    /// The stream that is being captured.
    capture: Option<usize>,
    /// Whether something forbidden was done meanwhile.
    is_spoilt: bool,
    streams: usize,
}

/// The card.
#[derive(Clone, Default)]
pub struct FakeCard {
    state: Arc<Mutex<State>>,
}

/// One of its streams.
pub struct FakeStream {
    card: FakeCard,
    number: usize,
    places: Vec<Place>,
    log: Arc<Mutex<Vec<String>>>,
    /// The size whose graph is not right, and what it does.
    corrupted: Option<(usize, Fault)>,
    /// What a wait that sleeps takes longer than one that polls.
    waking: Duration,
}

/// What a graph does that is not right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It computes something else.
    Another,
    /// It writes nothing.
    Nothing,
}

/// The buffers of a batch size, and whether it is captured.
struct Place {
    masks: Vec<u8>,
    scalars: Vec<f32>,
    entries: Vec<i16>,
    sharpness: [f32; 1],
    policy: Vec<f32>,
    wdl: Vec<f32>,
    mlh: Vec<f32>,
    is_captured: bool,
}

impl FakeCard {
    /// A stream for these batch sizes.
    pub fn stream(&self, sizes: &[usize]) -> FakeStream {
        let mut state = self.state.lock();
        state.streams += 1;
        let place = |&size: &usize| Place {
            masks: vec![0; size * 112 * 8],
            scalars: vec![0.0; size],
            entries: vec![0; size * SLOTS],
            sharpness: [0.0],
            policy: vec![0.0; size * SLOTS],
            wdl: vec![0.0; size * 3],
            mlh: vec![0.0; size],
            is_captured: false,
        };
        FakeStream {
            card: self.clone(),
            number: state.streams,
            places: sizes.iter().map(place).collect(),
            log: Arc::default(),
            corrupted: None,
            waking: Duration::ZERO,
        }
    }
}

impl FakeStream {
    /// What was done, in order.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// The same, for when the stream is gone.
    pub fn shared_log(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.log)
    }

    fn note(&self, what: impl Into<String>) {
        self.log.lock().push(what.into());
    }

    /// Has the graph of a size do something else than an ordinary run.
    pub fn corrupt(&mut self, place: usize, fault: Fault) {
        self.corrupted = Some((place, fault));
    }

    /// Has waits that sleep take this long.
    pub fn sleep_longer(&mut self, waking: Duration) {
        self.waking = waking;
    }

    /// Does something that is forbidden while another stream is captured.
    fn forbidden_elsewhere(&self) -> Result<(), String> {
        let mut state = self.card.state.lock();
        match state.capture {
            Some(_) => {
                state.is_spoilt = true;
                Err("CUDA failure 900: operation not permitted when stream is capturing".to_owned())
            }
            None => Ok(()),
        }
    }
}

impl Place {
    /// The policy of each move is its entry divided by 1858, W is the mean of the mask, plies left are the rule-50
    /// counter.
    fn compute(&mut self, shift: f32) {
        for (p, &entry) in self.policy.iter_mut().zip(&self.entries) {
            *p = f32::from(entry.max(0)) / 1858.0 * self.sharpness[0] + shift;
        }
        for (wdl, masks) in self.wdl.chunks_exact_mut(3).zip(self.masks.chunks(112 * 8)) {
            let set: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
            let w = set as f32 / (112.0 * 64.0);
            wdl.copy_from_slice(&[w, 0.0, 1.0 - w]);
        }
        self.mlh.copy_from_slice(&self.scalars);
    }
}

impl DeviceStream for FakeStream {
    fn buffers(&mut self, place: usize) -> Result<Buffers<'_>, String> {
        let place = &mut self.places[place];
        Ok(Buffers {
            masks: &mut place.masks,
            scalars: &mut place.scalars,
            entries: &mut place.entries,
            sharpness: &mut place.sharpness,
            outputs: [&mut place.policy, &mut place.wdl, &mut place.mlh],
        })
    }

    fn queue(&mut self, place: usize) -> Result<(), String> {
        let is_mine = {
            let state = self.card.state.lock();
            let is_mine = state.capture == Some(self.number);
            if is_mine && state.is_spoilt {
                return Err(
                    "CUDA failure 901: operation failed due to a previous error during capture"
                        .to_owned(),
                );
            }
            is_mine
        };
        self.note(format!("run {place}"));
        // What is captured is not computed.
        if !is_mine {
            self.places[place].compute(0.0);
        }
        Ok(())
    }

    fn begin_capture(&mut self) -> Result<(), String> {
        self.forbidden_elsewhere()?;
        self.note("begin");
        let mut state = self.card.state.lock();
        (state.capture, state.is_spoilt) = (Some(self.number), false);
        Ok(())
    }

    fn end_capture(&mut self, place: usize) -> Result<(), String> {
        let mut state = self.card.state.lock();
        state.capture = None;
        if std::mem::take(&mut state.is_spoilt) {
            return Err(
                "CUDA failure 901: operation failed due to a previous error during capture"
                    .to_owned(),
            );
        }
        self.note(format!("end {place}"));
        self.places[place].is_captured = true;
        Ok(())
    }

    fn launch(&mut self, place: usize) -> Result<(), String> {
        self.note(format!("launch {place}"));
        if !self.places[place].is_captured {
            return Err(format!("size {place} is not captured"));
        }
        let fault = self.corrupted.filter(|(corrupted, _)| *corrupted == place);
        match fault.map(|(_, fault)| fault) {
            None => self.places[place].compute(0.0),
            Some(Fault::Another) => self.places[place].compute(0.5),
            Some(Fault::Nothing) => {}
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> Result<(), String> {
        self.forbidden_elsewhere()?;
        let sleeps = limit.is_zero();
        if sleeps {
            thread::sleep(self.waking);
        }
        self.note(if sleeps { "wait" } else { "poll" });
        Ok(())
    }
}
