"""The words of an expression in Spark's SQL, as Spark's own lexer divides it.

Text that Spark might divide in another way is no word: a comment, a variable, a letter or a space beyond ASCII. So no
decision about SQL rests on two parsers being equal (docs/adr/0145).

The functions of Spark that SQL of a spec may call, and the reasons against the others.

A function that is on no list is refused. So is one of a newer Spark, until a developer has read what it does. A test
compares the lists with Spark's own registry.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class WordKind(StrEnum):
    """The kinds of words."""

    TEXT = "text"
    NAME = "name"
    QUOTED_NAME = "quoted name"
    NUMBER = "number"
    SYMBOL = "symbol"
    UNKNOWN = "unknown"


NAMES: Final = (WordKind.NAME, WordKind.QUOTED_NAME)


@dataclass(frozen=True, slots=True)
class SqlWord:
    """A word of SQL as written, at positions ``start`` to ``end`` of the text."""

    kind: WordKind
    written: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """The word in lower case and without quotes."""
        bare = self.written[1:-1].replace("``", "`") if self.kind is WordKind.QUOTED_NAME else self.written
        return bare.lower()

    @property
    def value(self) -> str:
        """The value of a text."""
        if self.written[0] in "rR":
            return self.written[2:-1]
        return _ESCAPE.sub(_unescape, self.written[1:-1])

    def is_symbol(self, *symbols: str) -> bool:
        """Whether it is a symbol among ``symbols``."""
        return self.kind is WordKind.SYMBOL and self.written in symbols

    def is_name(self, *names: str) -> bool:
        """Whether it is a name among ``names``, not in quotes."""
        return self.kind is WordKind.NAME and self.name in names


_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROL: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_PATTERN: Final = re.compile(
    r"""
    (?P<comment>--|/\*)
    | (?P<text>\b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d\w*)
    | (?P<name>[^\W\d]\w*)
    | (?P<symbol>\|\||->|=>|<=>|::|[()\[\],.+\-*/%<>=!&|^~:])
    | (?P<space>[ \t\r\n]+)
    | (?P<unknown>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_KINDS: Final = {
    "comment": WordKind.UNKNOWN, "text": WordKind.TEXT, "quoted": WordKind.QUOTED_NAME, "number": WordKind.NUMBER,
    "name": WordKind.NAME, "symbol": WordKind.SYMBOL, "unknown": WordKind.UNKNOWN,
}  # fmt: skip


def words_of(sql: str) -> list[SqlWord]:
    """Return the words of ``sql``. Text that is no word has the kind UNKNOWN."""
    return [
        SqlWord(_KINDS[found.lastgroup], found.group(), found.start(), found.end())
        for found in _PATTERN.finditer(sql)
        if found.lastgroup is not None and found.lastgroup != "space"
    ]


def calls(words: Sequence[SqlWord], at: int) -> bool:
    """Tell whether the word at ``at`` is a name with a bracket behind it."""
    return words[at].kind in NAMES and at + 1 < len(words) and words[at + 1].is_symbol("(")


def find_qualified_name(words: Sequence[SqlWord], at: int) -> tuple[int, str]:
    """Return the name that ends at ``at`` with what qualifies it, and the position where it begins."""
    start = at
    while start > 1 and words[start - 1].is_symbol(".") and words[start - 2].kind in NAMES:
        start -= 2
    return start, "".join(word.name for word in words[start : at + 1])


_CLOSED: Final = {"(": ")", "[": "]", "<": ">"}


def nests_deeper(sql: str, most: int) -> bool:
    """Whether more than ``most`` brackets are open somewhere. ``<`` is one behind the name of a nested type only."""
    waiting, before = list[str](), None
    for word in words_of(sql):
        is_type = before is not None and before.is_name("array", "map", "struct")
        if word.is_symbol("(", "[") or (is_type and word.is_symbol("<")):
            waiting.append(_CLOSED[word.written])
        elif waiting and word.is_symbol(waiting[-1]):
            waiting.pop()
        if len(waiting) > most:
            return True
        before = word
    return False


def find_closing(words: Sequence[SqlWord], opening: int) -> int:
    """Return the position at which the brackets opened at ``opening`` close, or the end of ``words`` if they do not."""
    opened, depth = words[opening].written, 0
    closed = _CLOSED[opened]
    for at in range(opening, len(words)):
        depth += words[at].is_symbol(opened) - words[at].is_symbol(closed)
        if not depth:
            return at
    return len(words)


def _unescape(found: re.Match[str]) -> str:
    code, wide, octal, other = found.groups()
    if octal:
        return chr(int(octal, 8))
    if code or wide:
        number = int(code or wide, 16)
        return chr(number) if number <= 0x10FFFF else ""  # noqa: PLR2004  the last of Unicode
    return _CONTROL.get(other, other)


_SCALAR: Final = """
abs acos acosh add_months aes_decrypt aggregate approx_top_k_estimate array array_append array_compact array_contains
array_distinct array_except array_insert array_intersect array_join array_max array_min array_position array_prepend
array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true
atan atan2 atanh base64 between bigint bin binary bit_count bit_get bit_length bitmap_bit_position
bitmap_bucket_number bitmap_count boolean bround btrim cardinality cast cbrt ceil ceiling char char_length
character_length chr coalesce collate collation concat concat_ws contains conv convert_timezone cos cosh cot crc32 csc
date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day
dayname dayofmonth dayofweek dayofyear decimal decode degrees double e element_at elt encode endswith equal_null
exists exp expm1 extract factorial filter find_in_set flatten float floor forall format_number format_string from_csv
from_json from_unixtime from_utc_timestamp get get_json_object getbit greatest hash hex hll_sketch_estimate hll_union
hour hypot if ifnull initcap instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull
json_array_length json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float last_day
lcase least left len length levenshtein ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date
make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8
make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys
map_values map_zip_with mask md5 minute mod month monthname months_between named_struct nanvl negative next_day nullif
nullifzero nvl nvl2 octet_length overlay parse_json parse_url pi pmod position positive pow power printf quarter quote
radians raise_error reduce regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace
regexp_substr repeat replace reverse right rint round rpad rtrim schema_of_csv schema_of_json schema_of_variant sec
second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice
smallint sort_array soundex space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
startswith str_to_map string struct substr substring substring_index tan tanh theta_difference theta_intersection
theta_sketch_estimate theta_union time time_bucket time_diff time_from_micros time_from_millis time_from_seconds
time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds
timestampadd timestampdiff tinyint to_binary to_char to_csv to_date to_json to_number to_time to_timestamp
to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform
transform_keys transform_values translate trim trunc try_add try_aes_decrypt try_cast try_divide try_element_at
try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json
try_parse_url try_subtract try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode
try_validate_utf8 try_variant_get tuple_difference_double tuple_difference_integer tuple_difference_theta_double
tuple_difference_theta_integer tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
tuple_intersection_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
tuple_union_double tuple_union_integer tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64 unhex
unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 variant_get
vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize vector_sum
weekday weekofyear when width_bucket xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
xpath_short xpath_string xxhash64 year zeroifnull zip_with
"""
SCALAR: Final = frozenset(_SCALAR.split())
"""Functions, and calls of the language, that give one value for a row, the same whenever the row is read."""

_NEVER_FAILING: Final = """
any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or
collect_list collect_set corr count count_if covar_pop covar_samp every first first_value histogram_numeric kurtosis
last last_value listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont
percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness
some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
"""
NEVER_FAILING: Final = frozenset(_NEVER_FAILING.split())
"""Aggregates that fail for no value of a column: sums wrap around or are null, sketches are not among them."""

_MAY_FAIL: Final = """
approx_top_k approx_top_k_accumulate approx_top_k_combine bitmap_and_agg bitmap_construct_agg bitmap_or_agg
count_min_sketch grouping grouping_id hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float measure schema_of_variant_agg
theta_intersection_agg theta_sketch_agg theta_union_agg tuple_intersection_agg_double tuple_intersection_agg_integer
tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
"""
MAY_FAIL: Final = frozenset(_MAY_FAIL.split())
"""Aggregates that one absurd value could make fail, or that mean nothing in a measure."""

_OTHER_ROWS: Final = """
collations cume_dist dense_rank explode explode_outer inline inline_outer json_tuple lag lead nth_value ntile
percent_rank posexplode posexplode_outer python_worker_logs range rank row_number session_window sql_keywords stack
variant_explode variant_explode_outer window window_time
"""
OTHER_ROWS: Final = frozenset(_OTHER_ROWS.split())
"""Functions that make several rows of one or look at several. ``window`` does if its windows overlap."""

REFLECTION: Final = frozenset({"reflect", "java_method", "try_reflect"})

BEYOND_THE_ROW: Final = {
    "version": "the version of Spark, which another driver may not have",
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro"), "any file, by its option avroSchemaUrl"),
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "a file that describes a message"),
    **dict.fromkeys(("from_xml", "schema_of_xml"), "any file, by its option rowValidationXSDPath"),
}
"""Functions of Spark that read more than their arguments, and what they read."""

_VARYING: Final = """
aes_encrypt input_file_block_length input_file_block_start input_file_name monotonically_increasing_id rand randn
random randstr shuffle spark_partition_id uniform uuid
"""
VARYING: Final = frozenset(_VARYING.split())
"""Functions that give another value each time. ``aes_encrypt`` draws its initialization vector."""

_MOMENTARY: Final = """
curdate current_catalog current_database current_date current_path current_schema current_time current_timestamp
current_timezone current_user localtimestamp now session_user user
"""
MOMENTARY: Final = frozenset(_MOMENTARY.split())
"""Functions that give the time, the user or the catalog. Spark calls most of them without brackets too."""

CLOCK_WITHOUT_ARGUMENTS: Final = frozenset({"unix_timestamp", "to_unix_timestamp"})
