"""Broker configurations of TLS, principals, delegation tokens and the authorizer."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import ListOf, NonNull, OneOf, Range
from isthmus_broker.core.config.values import Type

SECURITY = (
    Definition("authorizer.class.name", Type.STRING, "", NonNull(), Importance.LOW),
    Definition("connections.max.reauth.ms", Type.LONG, 0, None, Importance.MEDIUM),
    Definition("delegation.token.expiry.check.interval.ms", Type.LONG, 3_600_000, Range(1), Importance.LOW),
    Definition("delegation.token.expiry.time.ms", Type.LONG, 86_400_000, Range(1), Importance.MEDIUM),
    Definition("delegation.token.max.lifetime.ms", Type.LONG, 604_800_000, Range(1), Importance.MEDIUM),
    Definition("delegation.token.secret.key", Type.PASSWORD, None, None, Importance.MEDIUM),
    Definition(
        "principal.builder.class",
        Type.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        None,
        Importance.MEDIUM,
        Change.PER_BROKER,
    ),
    Definition(
        "security.inter.broker.protocol",
        Type.STRING,
        "PLAINTEXT",
        OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        Importance.MEDIUM,
    ),
    Definition("security.providers", Type.STRING, None, None, Importance.LOW),
    Definition("ssl.allow.dn.changes", Type.BOOLEAN, False, None, Importance.LOW),
    Definition("ssl.allow.san.changes", Type.BOOLEAN, False, None, Importance.LOW),
    Definition("ssl.cipher.suites", Type.LIST, (), ListOf(may_be_empty=True), Importance.MEDIUM, Change.PER_BROKER),
    Definition(
        "ssl.client.auth",
        Type.STRING,
        "none",
        OneOf(("required", "requested", "none")),
        Importance.MEDIUM,
        Change.PER_BROKER,
    ),
    Definition(
        "ssl.enabled.protocols",
        Type.LIST,
        ("TLSv1.2", "TLSv1.3"),
        ListOf(may_be_empty=True),
        Importance.MEDIUM,
        Change.PER_BROKER,
    ),
    Definition("ssl.endpoint.identification.algorithm", Type.STRING, "https", None, Importance.LOW, Change.PER_BROKER),
    Definition("ssl.engine.factory.class", Type.CLASS, None, None, Importance.LOW, Change.PER_BROKER),
    Definition("ssl.key.password", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.keymanager.algorithm", Type.STRING, "SunX509", None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.keystore.certificate.chain", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.keystore.key", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.keystore.location", Type.STRING, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.keystore.password", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.keystore.type", Type.STRING, "JKS", None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.principal.mapping.rules", Type.STRING, "DEFAULT", None, Importance.LOW),
    Definition("ssl.protocol", Type.STRING, "TLSv1.3", None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.provider", Type.STRING, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.secure.random.implementation", Type.STRING, None, None, Importance.LOW, Change.PER_BROKER),
    Definition("ssl.trustmanager.algorithm", Type.STRING, "PKIX", None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.truststore.certificates", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.truststore.location", Type.STRING, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.truststore.password", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("ssl.truststore.type", Type.STRING, "JKS", None, Importance.MEDIUM, Change.PER_BROKER),
)
