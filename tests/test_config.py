import pytest

from tracoco.config import Config, parse_config, parse_recorded
from tracoco.errors import UserError, did_you_mean
from tracoco.methods import method_class, resolved_choice
from tracoco.presets import load_config, preset_names, preset_text
from tracoco.settings import LACKING, RENAMED, checked, with_new_names, with_old_names


def test_overrides_win_over_the_preset_and_the_preset_over_the_defaults() -> None:
    preset = load_config("demo")
    assert preset.training.steps != Config().training.steps
    changed = load_config("demo", ["training.steps=7", "seed=3", "data.crop=[16, 16, 8]"])
    assert (changed.training.steps, changed.seed, changed.data.crop) == (7, 3, (16, 16, 8))
    assert changed.network == preset.network


def test_an_unknown_key_names_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"'optimizer\.lrr' is not a setting; did you mean 'lr'\?"):
        load_config(None, ["optimizer.lrr=1"])
    with pytest.raises(UserError, match="did you mean 'training'"):
        load_config(None, ["trainin.steps=1"])


def test_a_methods_own_keys_are_checked_by_the_method() -> None:
    choice = load_config(None, ["method.name=tracoco", "method.gama=0.5"]).method
    config = method_class(choice.name).Config
    with pytest.raises(UserError, match="did you mean 'gamma'"):
        checked(config, choice.settings, "method tracoco")


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("tracoco", "likely", "gamma"),
        ("tracoco", "unlikely", "beta"),
        ("tracoco-as-released", "likely", "gamma"),
        ("tracoco-as-released", "unlikely", "beta"),
        ("cac", "likely", "threshold"),
        ("cac-co", "likely", "threshold"),
        ("ps-mt", "likely", "threshold"),
        ("dcnet", "unsure_share", "unsure_fraction"),
    ],
)
def test_an_old_name_is_read_from_a_run_and_refused_from_a_person(
    method: str, old: str, new: str
) -> None:
    recorded = parse_recorded({"method": {"name": method, old: 0.7}}, "run")
    assert recorded.method.settings == {new: 0.7}
    assert resolved_choice(recorded.method).settings[new] == 0.7
    given = load_config(None, [f"method.name={method}", f"method.{old}=0.7"]).method
    message = f"^method {method}: '{old}' was renamed to '{new}'$"
    with pytest.raises(UserError, match=message):
        resolved_choice(given)


@pytest.mark.parametrize("name", LACKING)
def test_what_a_run_did_not_record_is_read_as_it_was_then(name: str) -> None:
    recorded = parse_recorded({"method": {"name": name}}, "a run").method
    assert resolved_choice(recorded).settings["decoders"] == tuple(LACKING[name]["decoders"])
    assert resolved_choice(parse_config({"method": {"name": name}}, "").method) != recorded
    told = {"method": {"name": name, "decoders": "own"}}
    assert parse_recorded(told, "a run").method.settings["decoders"] == "own"


def test_the_table_of_renamed_settings_has_names_that_there_are_and_can_be_read_backwards() -> None:
    for method, names in RENAMED.items():
        fields = method_class(method).Config.model_fields
        assert set(names.values()) <= set(fields)
        assert not names.keys() & set(fields)
        settings = {"name": method, **dict.fromkeys(names.values(), 0.7)}
        assert with_old_names(settings) == {"name": method, **dict.fromkeys(names, 0.7)}
        assert with_new_names(with_old_names(settings)) == settings
    assert with_new_names({"likely": 0.7}) == {"gamma": 0.7}  # tracoco is the default
    assert with_new_names({"name": "cps", "likely": 0.7}) == {"name": "cps", "likely": 0.7}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("bad", "not of the form KEY=VALUE"),
        ("training.steps=-1", "training.steps = -1"),
        ("training.steps=many", "training.steps = 'many'"),
        ("seed.inner=3", "seed"),
        ("training.precision=fp8", "training.precision = 'fp8'"),
        ("data.crop=[", "cannot read the value"),
    ],
)
def test_a_wrong_override_says_what_is_wrong(override: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(None, [override])
    assert message in str(caught.value)


def test_a_missing_preset_names_the_nearest_one() -> None:
    with pytest.raises(UserError, match="did you mean 'demo'"):
        load_config("demmo")


def test_a_dump_reads_back_as_the_same_config() -> None:
    config = load_config("demo", ["method.noise=0.1"])
    assert parse_config(config.model_dump(mode="json"), "dump") == config


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_sound_and_says_what_it_is_for(name: str) -> None:
    choice = load_config(name).method
    checked(method_class(choice.name).Config, choice.settings, name)
    assert preset_text(name).startswith("# ")


def test_a_word_like_no_other_gets_the_whole_list() -> None:
    assert did_you_mean("zzz", ["b", "a"]) == "there are a, b"
