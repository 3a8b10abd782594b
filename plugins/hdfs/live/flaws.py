"""What daemons are given that is of no use: each a context in which a cluster has it."""

import contextlib
import os
import shutil
import socket
import ssl
import threading
import zipfile

from .processes import Failed, need, run

# How openssl is to issue a certificate as `suture cert` does.
ENDED = """[ca]
default_ca = own
[own]
database = {work}/index
new_certs_dir = {work}
rand_serial = yes
default_md = sha256
policy = names
x509_extensions = extensions
[names]
commonName = supplied
[extensions]
subjectAltName = URI:suture://{identity}
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth,serverAuth
[req]
distinguished_name = none
[none]
"""


@contextlib.contextmanager
def other_version(cluster):
    """Daemons take their Hadoop for one that the plugins do not know."""
    # Where Hadoop reads it, and before its own in the class path.
    path = os.path.join(cluster.conf, "common-version-info.properties")
    with open(path, "w") as out:
        out.write("version=3.2.4\nrevision=none\nbranch=none\nuser=none\ndate=none\nurl=none\n"
                  "srcChecksum=none\nprotocVersion=none\n")
    try:
        yield
    finally:
        os.remove(path)


@contextlib.contextmanager
def torn_jar(cluster, *lacks):
    """Daemons have a jar that lacks these classes."""
    good, names = cluster.jar, {name.replace(".", "/") + ".class" for name in lacks}
    torn = os.path.join(cluster.folder, "torn.jar")
    with zipfile.ZipFile(good) as whole, zipfile.ZipFile(torn, "w") as out:
        if not names <= set(whole.namelist()):
            raise Failed(f"{good} has no {', '.join(sorted(names))}")
        for name in whole.namelist():
            if name not in names:
                out.writestr(name, whole.read(name))
    cluster.jar = torn
    try:
        yield
    finally:
        cluster.jar = good


@contextlib.contextmanager
def expired(cluster, who, identity):
    """Credentials have a certificate that has ended, by the same authority.

    What this gives puts the good one back before."""
    folder = os.path.join(cluster.folder, "certs", who)
    good = os.path.join(folder, "tls.crt.good")
    shutil.copy2(os.path.join(folder, "tls.crt"), good)

    def renew():
        shutil.copy2(good, os.path.join(folder, "tls.crt"))

    try:
        _expire(cluster, who, identity)
        yield renew
    finally:
        renew()


def _expire(cluster, who, identity):
    need("openssl", "it issues a certificate that has ended, which suture does not")
    folder = os.path.join(cluster.folder, "certs", who)
    work = os.path.join(cluster.folder, "expired", who)
    os.makedirs(work, exist_ok=True)
    config, request = os.path.join(work, "config"), os.path.join(work, "request")
    open(os.path.join(work, "index"), "w").close()
    with open(config, "w") as out:
        out.write(ENDED.format(work=work, identity=identity))
    authority = os.path.join(cluster.folder, "certs", "authority")
    run(["openssl", "req", "-new", "-config", config, "-subj", f"/CN={who}", "-out", request,
         "-key", os.path.join(folder, "tls.key")])
    run(["openssl", "ca", "-batch", "-notext", "-config", config, "-in", request,
         "-cert", os.path.join(authority, "ca.crt"),
         "-keyfile", os.path.join(authority, "ca.key"),
         "-startdate", "20240101000000Z", "-enddate", "20240102000000Z",
         "-out", os.path.join(folder, "tls.crt")])


@contextlib.contextmanager
def expired_coordinator(cluster):
    """In the coordinator's place is somebody whose certificate has ended; gives who came to him.

    A coordinator does not begin with such a one, so he does what that would: his handshake."""
    met = []

    def serve(listener, context):
        with contextlib.suppress(OSError):
            while True:
                connection, address = listener.accept()
                met.append(address)
                connection.settimeout(10)
                with connection, contextlib.suppress(OSError), \
                        context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)

    folder = os.path.join(cluster.folder, "certs", "coordinator")
    with expired(cluster, "coordinator", "coordinator/coordinator"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key"))
        at = cluster.network.address(0), cluster.ports["hdfs"]
        with socket.create_server(at) as listener:
            threading.Thread(target=serve, args=(listener, context), daemon=True).start()
            try:
                yield met
            finally:
                # Wakes who waits there, which closing does not.
                listener.shutdown(socket.SHUT_RDWR)
