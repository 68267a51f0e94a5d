//! Fetches what came with a message: a document or a picture into the workspace's inbox, spoken words as text. What the
//! model can be shown is kept with the session's outputs besides: files in a workspace change.
//!
//! Twice gives the same: a file is named after its content, and one that is there is not touched.

use super::Scene;
use super::World;
use super::ears::Ears;
use super::outputs::Outputs;
use super::pictures::{self, Eyes};
use super::workspace::Workspace;
use crate::agent::event::{Event, Got, Image, Media, MediaKind};
use crate::doors::whatsapp::media::{Downloaded, MediaSource};
use tokio::sync::Semaphore;

/// What is fetched at a time, in all sessions: it is held in memory.
static AT_A_TIME: Semaphore = Semaphore::const_new(2);

const STEM_CHARS_MAX: usize = 60;
const ENDING_CHARS_MAX: usize = 12;

/// Where media come from, and what hears them.
pub struct Intake {
    pub source: Option<MediaSource>,
    pub ears: Option<Ears>,
    pub eyes: Option<Eyes>,
}

impl Intake {
    /// Whether the model can be shown pictures.
    pub fn sees(&self) -> bool {
        self.eyes.is_some()
    }
}

impl World {
    pub(super) async fn fetch(&self, message: String, media: &Media, scene: &Scene) -> Event {
        let got = self.get(media, scene).await;
        let got = got.unwrap_or_else(|why| Got::Failed { why });
        Event::MediaFetched { message, got }
    }

    async fn get(&self, media: &Media, scene: &Scene) -> Result<Got, String> {
        let intake = &self.intake;
        let source = intake.source.as_ref().ok_or("WhatsApp is not configured")?;
        let _turn = AT_A_TIME.acquire().await;
        match media.kind {
            MediaKind::Audio => {
                // Not fetched where nobody could hear it.
                let ears = intake
                    .ears
                    .as_ref()
                    .ok_or("no transcription is configured here (TRANSCRIPTION_MODEL)")?;
                let sound = source
                    .download(media)
                    .await
                    .map_err(|error| error.to_string())?;
                ears.hear(sound.bytes, &sound.mime).await
            }
            MediaKind::Document | MediaKind::Image => {
                let workspace = scene.workspace.clone();
                let workspace = workspace.ok_or("the workspace cannot be opened")?;
                let file = source
                    .download(media)
                    .await
                    .map_err(|error| error.to_string())?;
                let image = self.image(media.kind, &file, scene)?;
                let name = media.name.clone();
                let outputs = Outputs::of(&self.data_dir, &scene.session);
                let kept = tokio::task::spawn_blocking(move || {
                    keep(&workspace, &outputs, &name, file, image)
                });
                kept.await
                    .map_err(|_| "it could not be saved (a bug of Journeyman)")?
            }
        }
    }
}

impl World {
    /// What the model can be shown of the file. One that was sent as a picture must be one.
    fn image(
        &self,
        kind: MediaKind,
        file: &Downloaded,
        scene: &Scene,
    ) -> Result<Option<Image>, String> {
        let eyes = self.intake.eyes.as_ref();
        let mime = match (eyes.map(|eyes| eyes.look(&file.bytes, &file.mime)), kind) {
            (Some(Ok(mime)), _) => mime,
            (Some(Err(why)), MediaKind::Image) => return Err(why),
            (None, _) | (Some(Err(_)), MediaKind::Document | MediaKind::Audio) => return Ok(None),
        };
        Ok(Some(Image {
            session: scene.session.clone(),
            sha256: file.sha256.clone(),
            mime: mime.into(),
        }))
    }
}

fn keep(
    workspace: &Workspace,
    outputs: &Outputs,
    name: &str,
    file: Downloaded,
    image: Option<Image>,
) -> Result<Got, String> {
    if let Some(image) = &image {
        let kept = pictures::keep(outputs, image, &file.bytes);
        kept.map_err(|error| format!("it could not be kept: {error}"))?;
    }
    let name = match (name, &image) {
        ("", Some(image)) => image.mime.replace('/', "."),
        (name, _) => name.to_owned(),
    };
    let name = file_name(&name, &file.sha256);
    let kept = workspace.receive(&name, &file.bytes);
    let root = workspace.root().file_name().unwrap_or_default();
    Ok(Got::File {
        path: kept.map_err(|error| format!("it could not be saved: {error}"))?,
        bytes: file.bytes.len() as u64,
        mime: file.mime,
        workspace: root.to_string_lossy().into_owned(),
        image,
    })
}

/// A name that is no path, no hidden file and no option, and belongs to this content.
fn file_name(name: &str, sha256: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let plain = |text: &str, chars_max: usize| -> String {
        let fit = |c: char| {
            if c.is_alphanumeric() || matches!(c, '_' | '-') {
                c
            } else {
                '_'
            }
        };
        text.chars().map(fit).take(chars_max).collect()
    };
    let stem = plain(stem, STEM_CHARS_MAX);
    let stem = stem.trim_matches(['_', '-']);
    let stem = if stem.is_empty() { "file" } else { stem };
    let digest = sha256.get(..8).unwrap_or(sha256);
    match plain(ending, ENDING_CHARS_MAX) {
        ending if ending.is_empty() => format!("{stem}-{digest}"),
        ending => format!("{stem}-{digest}.{ending}"),
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_name_from_outside_is_only_a_name() {
        for (name, kept) in [
            ("report.pdf", "report-0123abcd.pdf"),
            ("../../etc/passwd", "passwd-0123abcd"),
            ("..\\..\\boot.ini", "boot-0123abcd.ini"),
            (".env", "file-0123abcd.env"),
            ("-rf.sh", "rf-0123abcd.sh"),
            ("año nuevo (2).txt", "año_nuevo__2-0123abcd.txt"),
            ("a\u{202e}fdp.exe\n", "a_fdp-0123abcd.exe_"),
            ("", "file-0123abcd"),
        ] {
            assert_eq!(file_name(name, "0123abcdef"), kept, "{name:?}");
        }
        let long = file_name(&"é".repeat(500), "0123abcdef");
        assert!(long.len() < 200, "{long}");
    }
}
