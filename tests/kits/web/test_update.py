"""A look and a model that are released while a page is in use come between two of its frames."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palmkit import assets
from palmkit.delivery.repository import Options, Repository
from palmkit.kits.kit import shipped_model
from palmkit.kits.tryon.look import Look
from tests.delivery.page.browser import Browser
from tests.delivery.web.package import needs_delivery
from tests.delivery.web.test_page import Site

pytestmark = needs_delivery

# Wears what is released on one picture, again and again: it notes what each frame wore.
PAGE = """<!doctype html>
<title>ready</title>
<link rel="icon" href="data:," />
<script type="module" nonce="own">
  import { TryOn, inWorker } from "/palmkit/kits/web/index.js";
  import { Updates } from "/palmkit/delivery/web/index.js";

  const shipped = { face_detector: "1.0" };
  const updates = await Updates.open({ urls: ["/repository"], root: "/root.json", shipped });
  await updates.refresh(["evening"]);
  const options = { mode: "video", look: "evening", behind_hands: false, updates };
  const picture = await createImageBitmap(await (await fetch("/face.jpg")).blob());
  let mirror = await inWorker(TryOn, options);
  window.worn = [];
  window.failed = [];
  window.update = async () => {
    await updates.refresh(["evening", "face_detector"]);
    const next = await inWorker(TryOn, options);
    const before = mirror;
    mirror = next;
    setTimeout(() => before.close(), 1000);
    return [await updates.version("evening"), await updates.version("face_detector")];
  };
  for (let frame = 0; ; ++frame) {
    try {
      const { look, faces } = await mirror.wear(picture, 40 * frame);
      worn.push([look.lipstick?.colour, faces.length]);
    } catch (error) {
      failed.push(String(error));
    }
  }
</script>
"""
RED, PLUM = "#a9142a", "#5c1f3f"


def publish_look(repository: Repository, folder: Path, release: str, look: Look) -> None:
    file = folder / release / "evening.json"
    file.parent.mkdir()
    look.save(file)
    repository.publish("evening", release, [file], Options(golden=0))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    repository = Repository.create(tmp_path / "repository")
    publish_look(repository, tmp_path, "1.0.0", Look.of(lipstick=RED))
    publish_look(repository, tmp_path, "2.0.0", Look.of(lipstick=PLUM))
    publish_look(repository, tmp_path, "3.0.0", Look.of(lipstick=RED, blush="#d0606c"))
    repository.publish(
        "face_detector", "2.0.0", [shipped_model("face_detector")], Options(golden=1)
    )
    repository.promote("evening", "1.0.0")
    root = tmp_path / "root"
    root.mkdir()
    (root / "root.json").write_bytes(repository.root())
    (root / "page.html").write_text(PAGE)
    shutil.copy(assets.path("samples/face.jpg"), root / "face.jpg")
    site = Site(repository, root)
    yield site
    site.server.shutdown()
    site.server.server_close()


def frames(browser: Browser, count: int) -> list[Any]:
    """Return what the next frames wore."""
    seen = browser.run("worn.length")
    browser.wait(f"worn.length >= {seen + count}")
    found: list[Any] = browser.run(f"worn.slice({seen})")
    return found


def test_an_update_in_the_middle(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}page.html")
    browser.wait("window.worn?.length")
    assert frames(browser, 3)[-1] == [RED, 1]
    site.repository.promote("evening", "2.0.0")
    site.repository.promote("face_detector", "2.0.0")
    browser.run("window.updating = update(); 0")
    assert browser.run("window.updating") == ["2.0.0", "2.0.0"]
    assert frames(browser, 4)[-1] == [PLUM, 1]
    # One that cannot be worn here goes into quarantine: the one before it is worn on.
    site.repository.promote("evening", "3.0.0")
    assert browser.run("update()")[0] == "2.0.0"
    assert frames(browser, 4)[-1] == [PLUM, 1]
    # Without the repository nothing changes, and what is here stays.
    site.is_offline = True
    told = browser.run("update().catch(({ code }) => code)")
    assert told == "check_fail_connect"
    assert frames(browser, 4)[-1] == [PLUM, 1]
    # Each frame wore one of both, in their order, and none was lost.
    worn = [colour for colour, _ in browser.run("worn")]
    assert worn == sorted(worn, key=[RED, PLUM].index)
    assert browser.run("failed") == []
    # All of that was code of the origin: of nowhere else would any have run.
    assert not [each for each in browser.problems if "Content Security Policy" in each]
    code = "import('data:text/javascript,0').then(() => 'ran', () => 'refused')"
    assert browser.run(code) == "refused"
    assert [each for each in browser.problems if "Content Security Policy" in each]
