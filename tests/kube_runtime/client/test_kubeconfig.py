"""Which server, and as whom: files merged as kubectl does, every mistake named, every kind of credentials."""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from tests.kube_runtime.client import fault_server as say
from tests.kube_runtime.client.kubeconfigs import authorization, config, credential, exec_user, plugin_script, write

from kube_runtime.client import errors, kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import EXEC_VERSIONS
from kube_runtime.client.objects import CONFIG_MAPS


async def test_the_first_file_that_says_something_wins(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a", {"contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "n1"}}]}
    )
    second = write(tmp_path / "b", config(context={"namespace": "n2"}))
    third = write(tmp_path / "d", config(cluster={"server": "https://three"}))
    listed = os.pathsep.join(["", str(first), str(tmp_path / "missing"), str(second), str(third)])
    target = kubeconfig.find(environ={"KUBECONFIG": listed})
    assert (target.server, target.namespace) == ("https://one:6443", "n1")
    assert await authorization(target) == "Bearer t"


async def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    content = config()
    content["users"].append({"name": "v", "user": {"token": "other"}})
    content["contexts"].append({"name": "second", "context": {"cluster": "c", "user": "v"}})
    target = kubeconfig.find(path=str(write(tmp_path / "k", content)), context="second", environ={})
    assert await authorization(target) == "Bearer other"


def test_relative_paths_start_at_the_file_that_names_them(tmp_path: Path) -> None:
    write(tmp_path / "sub" / "ca.crt", "the ca")
    path = write(tmp_path / "sub" / "config", config(cluster={"certificate-authority": "ca.crt"}))
    target = kubeconfig.load([path])
    assert target.authority is not None
    assert target.authority.read() == b"the ca"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({"token": "t"}, "Bearer t", id="token"),
        pytest.param({"token": "t", "tokenFile": "file"}, "Bearer from-file", id="a token file goes before a token"),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="user name and password"),
        pytest.param({}, "", id="nothing"),
    ],
)
async def test_every_kind_of_header(tmp_path: Path, user: dict[str, str], expected: str) -> None:
    write(tmp_path / "file", "from-file\n")
    target = kubeconfig.load([write(tmp_path / "config", config(user=user))])
    assert await authorization(target) == expected


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("{", ":1: not YAML", id="broken YAML"),
        pytest.param("- 1", "Expected `object`", id="a list"),
        pytest.param("[" * 20_000, "not a kubeconfig: nested too deeply", id="too deep"),
        pytest.param(f"clusters: {'9' * 5000}", "or with a value too long", id="a number of 5000 digits"),
        pytest.param({"clusters": "x"}, "clusters", id="wrong type"),
        pytest.param({}, "no current-context", id="empty"),
        pytest.param({"current-context": "x"}, "no context 'x'", id="no such context"),
        pytest.param({**config(), "clusters": []}, "cluster 'c' is not defined", id="no such cluster"),
        pytest.param({**config(), "users": None}, "user 'u' is not defined", id="no such user"),
        pytest.param(config(cluster={"server": "ftp://x"}), "not an http", id="wrong scheme"),
        pytest.param(config(cluster={"server": ""}), "not an http", id="no server"),
        pytest.param(config(cluster={"proxy-url": "socks5://x"}), "proxy-url", id="a proxy that we cannot speak to"),
        pytest.param(config(cluster={"certificate-authority-data": "?"}), "not base64", id="broken base64"),
        pytest.param(config(user={"client-certificate": "a"}), "come together", id="a certificate without key"),
        pytest.param(config(user={"auth-provider": {"name": "gcp"}}), "exec plugin", id="auth provider"),
        pytest.param(
            config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "is not one of",
            id="an exec version that is gone",
        ),
        pytest.param(
            config(user={"exec": {"command": "x", "apiVersion": EXEC_VERSIONS[0], "interactiveMode": "Always"}}),
            "terminal",
            id="a plugin that asks people",
        ),
    ],
)
def test_every_mistake_is_named(tmp_path: Path, content: Any, says: str) -> None:
    with pytest.raises(errors.KubeconfigInvalid, match=says):
        kubeconfig.load([write(tmp_path / "config", content)])


def test_no_file_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.KubeconfigInvalid, match="does not exist"):
        kubeconfig.find(environ={"HOME": str(tmp_path)})


def test_impersonation_is_sent_whole(tmp_path: Path) -> None:
    user = {"token": "t", "as": "alice", "as-groups": ["g1", "g2"], "as-user-extra": {"a/b": ["x"]}}
    target = kubeconfig.load([write(tmp_path / "config", config(user=user))])
    assert target.headers == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-a%2Fb", "x"),
    )


def test_a_target_never_shows_its_secrets(tmp_path: Path) -> None:
    for user in ({"token": "canary"}, {"username": "u", "password": "canary"}):
        assert "canary" not in repr(kubeconfig.load([write(tmp_path / "config", config(user=user))]))


# In a pod


def service_account(folder: Path) -> Path:
    write(folder / "token", "first")
    write(folder / "ca.crt", "the ca")
    write(folder / "namespace", "slurm")
    return folder


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_in_a_pod_the_service_account_is_used_and_its_token_read_anew(
    tmp_path: Path, host: str, server: str
) -> None:
    folder = service_account(tmp_path)
    target = kubeconfig.in_cluster({"KUBERNETES_SERVICE_HOST": host}, folder)
    assert (target.server, target.namespace) == (server, "slurm")
    assert await authorization(target) == "Bearer first"
    write(folder / "token", "second")
    assert await authorization(target) == "Bearer second"


def test_a_pod_without_token_is_told_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(errors.KubeconfigInvalid, match="automountServiceAccountToken"):
        kubeconfig.in_cluster({"KUBERNETES_SERVICE_HOST": "x"}, tmp_path)


def test_kubeconfig_goes_before_the_service_account(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    target = kubeconfig.find(environ={"KUBECONFIG": str(path), "KUBERNETES_SERVICE_HOST": "x"})
    assert target.server == "https://one:6443"


# Exec plugins


# TLS


@pytest.fixture
async def tls_server() -> AsyncIterator[tuple[str, trustme.CA]]:
    """A server that answers with the name in the client's certificate."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "api.test").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL

    async def serve(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        name = next((value for rdn in peer.get("subject", ()) for key, value in rdn if key == "commonName"), "nobody")
        return web.json_response(say.config_map("a", 1, seen_as=name))

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}", authority
    await runner.cleanup()


async def seen_as(path: Path) -> str:
    async with Client.to(kubeconfig.load([path])) as client:
        return (await client.get(CONFIG_MAPS, "a", "ns")).data["seen_as"]


def encoded(blob: bytes) -> str:
    return b64encode(blob).decode()


async def test_a_client_certificate_is_shown_from_data_from_files_and_from_a_plugin(
    tmp_path: Path, tls_server: tuple[str, trustme.CA]
) -> None:
    server, authority = tls_server
    cluster = {"server": server, "certificate-authority-data": encoded(authority.cert_pem.bytes())}
    issued = authority.issue_cert("alice@test", common_name="alice")
    chain, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    data = {"client-certificate-data": encoded(chain), "client-key-data": encoded(key)}
    assert await seen_as(write(tmp_path / "data", config(cluster=cluster, user=data))) == "alice"
    write(tmp_path / "crt", chain.decode())
    write(tmp_path / "key", key.decode())
    files = {"client-certificate": "crt", "client-key": "key"}
    assert await seen_as(write(tmp_path / "files", config(cluster=cluster, user=files))) == "alice"
    answer = credential(EXEC_VERSIONS[0], clientCertificateData=chain.decode(), clientKeyData=key.decode())
    plugin = exec_user(plugin_script(tmp_path, answer), EXEC_VERSIONS[0])
    assert await seen_as(write(tmp_path / "exec", config(cluster=cluster, user=plugin))) == "alice"


async def test_a_rotated_client_certificate_is_used_at_once(tmp_path: Path, tls_server: tuple[str, trustme.CA]) -> None:
    server, authority = tls_server
    cluster = {"server": server, "certificate-authority-data": encoded(authority.cert_pem.bytes())}
    path = write(tmp_path / "config", config(cluster=cluster, user={"client-certificate": "crt", "client-key": "key"}))
    names = []
    async with Client.to(kubeconfig.load([path])) as client:
        for name in ("alice", "bob"):
            issued = authority.issue_cert(f"{name}@test", common_name=name)
            write(tmp_path / "crt", issued.cert_chain_pems[0].bytes().decode())
            write(tmp_path / "key", issued.private_key_pem.bytes().decode())
            names.append((await client.get(CONFIG_MAPS, "a", "ns")).data["seen_as"])
    assert names == ["alice", "bob"]


async def test_a_server_of_another_authority_is_not_spoken_to(
    tmp_path: Path, tls_server: tuple[str, trustme.CA]
) -> None:
    other = {"server": tls_server[0], "certificate-authority-data": encoded(trustme.CA().cert_pem.bytes())}
    target = kubeconfig.load([write(tmp_path / "config", config(cluster=other))])
    async with Client.to(target) as client:
        with pytest.raises(errors.Unreachable) as caught:
            await client.create(CONFIG_MAPS, say.config_map("a", 1), "ns")
    assert caught.value.sent is False


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"insecure-skip-tls-verify": True}, id="without any check when told so"),
        pytest.param({"tls-server-name": "api.test"}, id="by the name that is expected"),
    ],
)
async def test_a_server_can_be_known_otherwise(
    tmp_path: Path, tls_server: tuple[str, trustme.CA], more: dict[str, Any]
) -> None:
    server, authority = tls_server
    trusted = (
        {}
        if "insecure-skip-tls-verify" in more
        else {"certificate-authority-data": encoded(authority.cert_pem.bytes())}
    )
    path = write(tmp_path / "config", config(cluster={"server": server, **trusted, **more}))
    assert await seen_as(path) == "nobody"


async def test_a_wrong_server_name_is_not_spoken_to(tmp_path: Path, tls_server: tuple[str, trustme.CA]) -> None:
    server, authority = tls_server
    cluster = {
        "server": server,
        "certificate-authority-data": encoded(authority.cert_pem.bytes()),
        "tls-server-name": "other.test",
    }
    with pytest.raises(errors.Unreachable):
        await seen_as(write(tmp_path / "config", config(cluster=cluster)))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(
            {"cluster": {"certificate-authority-data": encoded(b"no PEM")}}, errors.KubeconfigInvalid, id="authority"
        ),
        pytest.param(
            {"user": {"client-certificate-data": encoded(b"x"), "client-key-data": encoded(b"y")}},
            errors.LoginFailed,
            id="certificate",
        ),
    ],
)
async def test_material_that_is_no_pem_is_named(tmp_path: Path, parts: Any, expected: type[Exception]) -> None:
    with pytest.raises(expected, match=r"PEM|cannot be used"):
        await seen_as(write(tmp_path / "config", config(**parts)))
