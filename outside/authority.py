"""A certificate authority of our own: a root that the crawler is told to trust, and a certificate for each name."""

import datetime
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

YEARS = datetime.timedelta(days=3650)


class Authority:
    """Issues certificates and keeps a TLS context for each name."""

    def __init__(self, folder):
        self.folder, self.contexts = folder, {}
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Outside judge, root")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self.certificate = self.issue(self.name, self.key.public_key(), constraints, None)
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        # One key for all names: what is judged is the client.
        self.leaf_key = ec.generate_private_key(ec.SECP256R1())

    def issue(self, subject, public_key, constraints, name):
        """A certificate that is valid from years ago, since clocks are set here, until years ahead."""
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(
            issuer_name=self.name, subject_name=subject, public_key=public_key,
            serial_number=x509.random_serial_number(), not_valid_before=now - YEARS, not_valid_after=now + YEARS,
        ).add_extension(constraints, critical=True)
        if name:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def context(self, name):
        """The TLS context of a name."""
        if name not in self.contexts:
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:60])])
            leaf = self.issue(subject, self.leaf_key.public_key(), x509.BasicConstraints(ca=False, path_length=None), name)
            key = self.leaf_key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            # The library reads certificates from files alone.
            file = self.folder / "leaf.pem"
            file.write_bytes(leaf.public_bytes(serialization.Encoding.PEM) + key)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(file)
            context.set_alpn_protocols(["http/1.1"])
            self.contexts[name] = context
        return self.contexts[name]

    def listening(self):
        """A context that takes the certificate of whatever name the client asks for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        first = self.context("nobody.test")
        context.load_cert_chain(self.folder / "leaf.pem")
        context.set_alpn_protocols(["http/1.1"])
        assert first is not None

        def choose(connection, name, _):
            connection.context = self.context(name or "nobody.test")

        context.sni_callback = choose
        return context
