"""Settings in environment variables."""

from isthmus_broker.core.config.environment import from_environment


def test_environment_variables_name_settings_as_in_kafkas_image() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1",
        "KAFKA_MY__UNDERSCORE_KEY": "1",
        "KAFKA_MY___HYPHEN": "2",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "PATH": "/bin",
    }
    assert from_environment(environment) == {
        "advertised.listeners": "PLAINTEXT://a:1",
        "my_underscore.key": "1",
        "my-hyphen": "2",
    }
