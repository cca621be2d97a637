//! Statistics of games: what was won and how alike games are ([`games`]), how strong that makes one side ([`elo`],
//! [`sprt`]), how sure searches were of their moves ([`policy`]), and pages that show it ([`page`], [`plot`]), beside
//! what the [`paper`] says.
//!
//! Nothing here plays or reads games: it counts what it is given.

pub mod elo;
pub mod games;
pub mod page;
pub mod paper;
pub mod plot;
pub mod policy;
pub mod records;
pub mod sprt;
