"""Broker configurations of SASL."""

from __future__ import annotations

from isthmus_broker.core.config.definition import Change, Definition, Importance
from isthmus_broker.core.config.validators import ListOf, OneOfAnyCase, Range
from isthmus_broker.core.config.values import Type

SASL = (
    Definition("sasl.client.callback.handler.class", Type.CLASS, None, None, Importance.MEDIUM),
    Definition(
        "sasl.enabled.mechanisms",
        Type.LIST,
        ("GSSAPI",),
        ListOf(may_be_empty=True),
        Importance.MEDIUM,
        Change.PER_BROKER,
    ),
    Definition("sasl.jaas.config", Type.PASSWORD, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.kerberos.min.time.before.relogin", Type.LONG, 60_000, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition(
        "sasl.kerberos.principal.to.local.rules",
        Type.LIST,
        ("DEFAULT",),
        ListOf(may_be_empty=True),
        Importance.MEDIUM,
        Change.PER_BROKER,
    ),
    Definition("sasl.kerberos.service.name", Type.STRING, None, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition(
        "sasl.kerberos.ticket.renew.window.factor", Type.DOUBLE, 0.8, None, Importance.MEDIUM, Change.PER_BROKER
    ),
    Definition("sasl.login.callback.handler.class", Type.CLASS, None, None, Importance.MEDIUM),
    Definition("sasl.login.class", Type.CLASS, None, None, Importance.MEDIUM),
    Definition("sasl.login.connect.timeout.ms", Type.INT, None, None, Importance.LOW),
    Definition("sasl.login.read.timeout.ms", Type.INT, None, None, Importance.LOW),
    Definition("sasl.login.refresh.buffer.seconds", Type.SHORT, 300, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.login.refresh.min.period.seconds", Type.SHORT, 60, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05, None, Importance.MEDIUM, Change.PER_BROKER),
    Definition("sasl.login.retry.backoff.max.ms", Type.LONG, 10_000, None, Importance.LOW),
    Definition("sasl.login.retry.backoff.ms", Type.LONG, 100, None, Importance.LOW),
    Definition("sasl.mechanism.controller.protocol", Type.STRING, "GSSAPI", None, Importance.HIGH),
    Definition(
        "sasl.mechanism.inter.broker.protocol", Type.STRING, "GSSAPI", None, Importance.MEDIUM, Change.PER_BROKER
    ),
    Definition(
        "sasl.oauthbearer.assertion.algorithm",
        Type.STRING,
        "RS256",
        OneOfAnyCase(("ES256", "RS256")),
        Importance.MEDIUM,
    ),
    Definition("sasl.oauthbearer.assertion.claim.aud", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.claim.exp.seconds", Type.INT, 300, Range(0, 86_400), Importance.LOW),
    Definition("sasl.oauthbearer.assertion.claim.iss", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.claim.jti.include", Type.BOOLEAN, False, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.claim.nbf.seconds", Type.INT, 60, Range(0, 3600), Importance.LOW),
    Definition("sasl.oauthbearer.assertion.claim.sub", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.file", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.private.key.file", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.private.key.passphrase", Type.PASSWORD, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.assertion.template.file", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.client.credentials.client.id", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.client.credentials.client.secret", Type.PASSWORD, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.clock.skew.seconds", Type.INT, 30, None, Importance.LOW),
    Definition("sasl.oauthbearer.expected.audience", Type.LIST, (), ListOf(may_be_empty=True), Importance.HIGH),
    Definition("sasl.oauthbearer.expected.issuer", Type.STRING, None, None, Importance.HIGH),
    Definition("sasl.oauthbearer.jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, None, Importance.LOW),
    Definition("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10_000, None, Importance.LOW),
    Definition("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type.LONG, 100, None, Importance.LOW),
    Definition("sasl.oauthbearer.jwks.endpoint.url", Type.STRING, None, None, Importance.MEDIUM),
    Definition(
        "sasl.oauthbearer.jwt.retriever.class",
        Type.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        None,
        Importance.MEDIUM,
    ),
    Definition(
        "sasl.oauthbearer.jwt.validator.class",
        Type.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        None,
        Importance.MEDIUM,
    ),
    Definition("sasl.oauthbearer.scope", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", None, Importance.LOW),
    Definition("sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", None, Importance.LOW),
    Definition("sasl.oauthbearer.token.endpoint.url", Type.STRING, None, None, Importance.MEDIUM),
    Definition("sasl.server.callback.handler.class", Type.CLASS, None, None, Importance.MEDIUM),
    Definition("sasl.server.max.receive.size", Type.INT, 524_288, None, Importance.MEDIUM),
)
