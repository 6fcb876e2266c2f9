package yaml

import (
	"slices"

	"github.com/weirproxy/weir/descriptors"
)

// content is what the value of a key is.
type content uint8

const (
	aText    content = iota // of up to most bytes
	aWord                   // one of a few
	aFlag                   // true or false
	aWhole                  // a number of 32 bits, from least
	aList                   // of least to most mappings, which are all of a kind
	aMapping                // of a kind
	aFree                   // a mapping of what JSON has
)

// term is a key that a kind of mapping may have. What the parser asks of its value, and what the schema says of it,
// stands here.
type term struct {
	name   string
	is     content
	needed bool
	least  uint32 // of a number, or how many items
	most   int    // how many bytes or items; 0 for no bound
	letter string // a regular expression: what each letter of a text is, if it cannot be any
	words  string // what a word can be, as a message lists it
	also   string // a regular expression: the other spellings of these words
	of     string // the kind of a mapping, or of the items of a list, as the schema calls it
	about  string // for people who write files
}

// otherCase and otherWidths are the spellings of words that stand for what one of the list does: of widths, those that
// people write, of the many that Go reads.
const (
	otherCase   = "^([Ss][Ee][Cc][Oo][Nn][Dd]|[Mm][Ii][Nn][Uu][Tt][Ee]|[Hh][Oo][Uu][Rr]|[Dd][Aa][Yy]|[Ww][Ee][Ee][Kk]|[Mm][Oo][Nn][Tt][Hh]|[Yy][Ee][Aa][Rr])$"
	otherWidths = `^(0\.05s|1000ms|60s|1m0s|3600s|60m|1h0m0s|86400s|1440m|24h|24h0m0s)$`
)

// headerLetter is one that a header can hold between quotes.
const headerLetter = `[ !#-\[\]-~]`

var (
	inFile = newKind("the file",
		term{name: "domain", is: aText, needed: true, most: maxName,
			about: "The domain that Envoy's rate-limit filter names. Keep a domain in one file, or set MERGE_DOMAIN_CONFIG."},
		term{name: "descriptors", is: aList, of: "descriptor", about: "What is limited: the first entries of requests' descriptors."},
		term{name: "refund_on_deny", is: aFlag,
			about: "Give back what a refused request has charged to those of its descriptors that are not over. Default: false."},
	)
	inDescriptor = newKind("a descriptor",
		term{name: "key", is: aText, needed: true, most: maxName,
			about: "The key of an entry. A * stands for any characters, or none."},
		term{name: "value", is: aText, most: maxName,
			about: "The value of the entry. A * stands for any characters, or none; all else matches literally. Left out, any value " +
				"matches, and each has a count of its own."},
		term{name: "rate_limit", is: aMapping, of: "rate_limit",
			about: "The limit of the descriptors that end on this entry."},
		term{name: "rate_limits", is: aList, of: "limit", least: 1, most: maxLimits,
			about: "Several limits, which must all admit a request: 10 a minute and 500 an hour."},
		term{name: "descriptors", is: aList, of: "descriptor", about: "What may follow this entry."},
		term{name: "shadow_mode", is: aFlag, about: "Count and report, but never deny. Default: false."},
		term{name: "quota_mode", is: aFlag,
			about: "Refuse a request only if all quotas that it brings are over. Default: false."},
		term{name: "charge", is: aWord, most: maxName, words: descriptors.ChargeNames,
			about: "Which hits are counted: those that are admitted, or always. Default: always for a fixed_window, else admitted."},
		term{name: "on_backend_failure", is: aWord, most: maxName, words: descriptors.PolicyNames,
			about: "What becomes of hits while Redis gives no answer. Default: the variable ON_BACKEND_FAILURE."},
		term{name: "message", is: aText, most: maxMessage, about: "The body of the 429."},
		term{name: "metadata", is: aFree,
			about: "What Envoy is told of the requests that this rule limits and lets pass, with RESPONSE_DYNAMIC_METADATA."},
		term{name: "detailed_metric", is: aFlag,
			about: "Keep the values of all entries apart in the history, up to 100, for this rule. Default: false."},
		term{name: "value_to_metric", is: aFlag,
			about: "Keep this entry's values apart in the history, up to 100, for this rule and those below it. Default: false."},
		term{name: "share_threshold", is: aFlag,
			about: "Let all that the * of key or value stands for share one count. Default: false."},
	)
	inListItem  = newKind("an item of rate_limits", limitTerms...)
	inRateLimit = newKind("rate_limit", append(slices.Clip(limitTerms), term{name: "unlimited", is: aFlag,
		about: "Limit nothing, but record the hits. Default: false."})...)
	inReplaces = newKind("an item of replaces",
		term{name: "name", is: aText, needed: true, most: maxName, letter: headerLetter,
			about: "The name of a limit of another rule."})
)

// limitTerms are what rate_limit and an item of rate_limits have in common.
var limitTerms = []term{
	{name: "requests_per_unit", is: aWhole, about: "How many hits a window admits; 0, the default, blocks everything."},
	{name: "unit", is: aWord, most: maxName, needed: true, words: descriptors.UnitNames, also: otherCase,
		about: "The unit of the window. A month is 30 days, a year 365."},
	{name: "unit_multiplier", is: aWhole, least: 1, about: "How many units the window has. Default: 1."},
	{name: "algorithm", is: aWord, most: maxName, words: descriptors.AlgorithmNames,
		about: "How the window moves. Default: the variable ALGORITHM."},
	{name: "precision", is: aWord, most: maxName, words: descriptors.PrecisionNames, also: otherWidths,
		about: "The finest bucket of a sliding_window, below the window. Default: by the window."},
	{name: "burst", is: aWhole, least: 1,
		about: "How many hits a token_bucket admits at once. Default: requests_per_unit."},
	{name: "name", is: aText, most: maxName, letter: headerLetter,
		about: "What the answer to Envoy calls the limit, in a header, and what replaces names."},
	{name: "replaces", is: aList, of: "replaced",
		about: "The names of limits that neither hold nor count where a request matches this one as well."},
}
