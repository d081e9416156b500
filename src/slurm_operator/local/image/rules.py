"""Which root file system and entry point an image name in a manifest stands for.

In: the rules in <data>/images.yaml, or the ones below where there is no such file. Out: for an image reference, a
`ResolvedImage`. Called by the node agent for each container and by `slurm-operator local images`.
There is no registry: a name that a rule matches stands for one of the images that `build.py` made, and any other name
cannot be pulled.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import yaml

from slurm_operator.build.images import slurm_version
from slurm_operator.local.image import recipe, store
from slurm_operator.local.image.errors import ImageMissing, InvalidRules
from slurm_operator.local.image.store import Image

FILE = "images.yaml"
BY_TAG = "tag"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: what to run for the images whose name matches."""

    match: str
    # The tags that exist; any tag if none is listed.
    tags: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    user: str = "0:0"
    slurm: str = BY_TAG


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rules, the first that matches wins; and the Slurm version for names that do not say one."""

    default: str = recipe.DEFAULT_VERSION
    rules: tuple[Rule, ...] = ()


class ResolvedImage(msgspec.Struct, frozen=True, kw_only=True):
    """What to run for a container, as an image's own configuration would say it.

    A pod's `command` takes the place of `entrypoint` and `command`, its `args` that of `command` alone.
    """

    image: str
    rootfs: Path
    digest: str
    version: str
    rule: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    env: Mapping[str, str]
    user: str | None
    working_dir: str = "/"
    note: str = ""


def _own(script: str) -> tuple[str, ...]:
    return (f"{recipe.ENTRY_POINTS}/{script}",)


# Slurm before 25.05 reads slurmdbd.conf only from a file of mode 600, which a volume with an fsGroup never has.
SLURMDBD = """\
case "$(slurmd -V)" in *" 24."*)
  own=/run/slurmdbd-files
  mkdir -p "$own" && cp /etc/slurm/* "$own" && chmod 600 "$own"/* || exit 1
  export SLURM_CONF="$own/slurm.conf" ;;
esac
exec slurmdbd -D "$@"
"""

# What images of Slurm's daemons are tagged with: `latest`, or something that begins with a release.
RELEASES = ("24.05", "24.11", "25.05", "25.11", "26.05")
TAGS = ("latest", *(f"{release}*" for release in RELEASES), *(f"v{release}*" for release in RELEASES))
# Images that manifests use only for their shell.
WITH_A_SHELL = ("alpine", "bash", "busybox", "debian", "ubuntu")

DEFAULT = Rules(
    rules=(
        Rule(match="*/slurmctld*:*", tags=TAGS, entrypoint=_own("slurmctld"), user="401:401"),
        Rule(
            match="*/slurmdbd*:*",
            tags=TAGS,
            entrypoint=("tini", "-g", "--", "sh", "-c", SLURMDBD, "slurmdbd"),
            user="401:401",
        ),
        Rule(match="*/slurmd*:*", tags=TAGS, entrypoint=_own("slurmd")),
        Rule(match="*/login*:*", tags=TAGS, entrypoint=_own("login")),
        Rule(match="*/sackd*:*", tags=TAGS, entrypoint=_own("login")),
        Rule(
            match="*/slurmrestd*:*",
            tags=TAGS,
            entrypoint=("tini", "-g", "--", "slurmrestd"),
            command=("0.0.0.0:6820",),
            user="65534:65534",
        ),
        Rule(match="*/mariadb*:*", entrypoint=_own("mariadb")),
        Rule(match="*/mysql*:*", entrypoint=_own("mariadb")),
        *(Rule(match=f"*/{name}:*", command=("sh",)) for name in WITH_A_SHELL),
    )
)

HEADER = """\
# Which program an image name in a manifest stands for in local mode: there is no registry.
# The first rule whose pattern matches wins; a name that none matches cannot be pulled (ErrImagePull).
# A name is completed before it is compared: "mariadb" is "library/mariadb:latest", and "x/slurmd:25.11@sha256:…" is
# "x/slurmd:25.11".
#   match       a pattern; * stands for anything
#   tags        patterns of the tags that exist; any tag if this is left out
#   entrypoint  what runs; a container's `command` takes its place
#   command     its arguments; a container's `args` take their place
#   env, user   as in an image; a container's own win
#   slurm       which Slurm: a version such as "26.05", or "tag": the one that the image's tag begins with
# `default` is the Slurm of names whose tag says none, or one that was not built.
"""


def load(path: Path) -> Rules:
    """The rules in that file, or the default ones where it does not exist."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return DEFAULT
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRules(f"{path} cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, name: str = FILE) -> Rules:
    """Rules out of YAML."""
    try:
        found = msgspec.convert(yaml.safe_load(text), Rules)
    except yaml.YAMLError as error:
        raise InvalidRules(f"{name} is not valid YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise InvalidRules(f"{name}: {error}") from error
    except (RecursionError, ValueError, OverflowError) as error:  # PyYAML's own constructors leak the last two
        raise InvalidRules(f"{name}: nested too deeply, or with a value too long") from error
    for index, rule in enumerate(found.rules):
        _check_user(rule, f"{name}: rules[{index}].user")
    return found


def _check_user(rule: Rule, where: str) -> None:
    if not all(part.isdecimal() for part in rule.user.split(":")) or rule.user.count(":") > 1:
        raise InvalidRules(f"{where}: {rule.user!r} is not a UID or UID:GID, such as 401:401")


def write_default(path: Path, version: str = recipe.DEFAULT_VERSION) -> None:
    """Put the default rules there for a person to read and change; a file that is there stays."""
    if not path.exists():
        path.write_text(dump(msgspec.structs.replace(DEFAULT, default=version)))


def dump(rules: Rules) -> str:
    """Rules as YAML, without what goes without saying."""
    kept = [_without_defaults(rule) for rule in rules.rules]
    return HEADER + yaml.safe_dump({"default": rules.default, "rules": kept}, sort_keys=False, allow_unicode=True)


def _without_defaults(rule: Rule) -> dict[str, object]:
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(rule))
    unsaid: dict[str, object] = msgspec.json.decode(msgspec.json.encode(Rule(match="")))
    return {key: value for key, value in plain.items() if value != unsaid[key]}


def complete(reference: str) -> str:
    """A reference with its folder and tag, without its digest."""
    name = reference.partition("@")[0]
    if "/" not in name:
        name = f"library/{name}"
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"


def matching(reference: str, rules: Rules) -> Rule:
    """The first rule that matches."""
    name = complete(reference)
    rule = next((each for each in rules.rules if fnmatchcase(name, each.match)), None)
    if rule is None:
        new = f'{{match: "{name.rpartition(":")[0]}:*", entrypoint: [PROGRAM]}}'
        raise ImageMissing(
            f"{reference!r} was never built, there is no registry to pull it from, and no rule of {FILE} matches "
            f"it: add {new} to run a program of the Slurm image under this name (slurm-operator local images "
            "names the file)"
        )
    tag = name.rpartition(":")[2]
    if rule.tags and not any(fnmatchcase(tag, pattern) for pattern in rule.tags):
        known = ", ".join(pattern for pattern in rule.tags if not pattern.startswith("v"))
        raise ImageMissing(
            f"{reference!r} was never built, and there is no registry to pull it from: the rule {rule.match} of {FILE} "
            f"builds tags {known}; correct the tag {tag!r}, or add it there (slurm-operator local images names the "
            "file)"
        )
    return rule


def wanted_version(reference: str, rule: Rule, rules: Rules) -> str:
    """The Slurm version that this name asks for."""
    if rule.slurm != BY_TAG:
        return rule.slurm
    found = slurm_version(complete(reference))
    return f"{found[0]:02}.{found[1]:02}" if found else rules.default


def resolve(image: str, rules: Rules, images: Mapping[str, Image]) -> ResolvedImage:
    """What to run for an image name; `images` are the built ones by Slurm version."""
    rule = matching(image, rules)
    wanted = wanted_version(image, rule, rules)
    version = next((each for each in (wanted, rules.default, *sorted(images, reverse=True)) if each in images), None)
    if version is None:
        raise ImageMissing(
            f"{image!r} stands for Slurm {wanted}, and no image is built: "
            f"slurm-operator local image build --slurm {rules.default}"
        )
    built = images[version]
    note = f"Slurm {wanted} is not built: Slurm {version} runs in its place" if wanted != version else ""
    return ResolvedImage(
        image=image,
        rootfs=built.path,
        digest=built.digest,
        version=version,
        rule=rule.match,
        entrypoint=rule.entrypoint,
        command=rule.command,
        env={"PATH": PATH, **rule.env},
        user=rule.user,
        note=note,
    )


def built_images(cache: Path) -> dict[str, Image]:
    """The images to choose from: of each version the newest, and a current one before an outdated one."""
    found: dict[str, Image] = {}
    for image in sorted(store.list_images(cache), key=lambda image: (image.current, image.built)):
        found[image.version] = image
    return found
