package descriptors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Algorithm is the algorithm by which a limit counts.
type Algorithm uint8

const (
	// SlidingWindow admits at most Requests in any interval of length Window (multi-level buckets).
	SlidingWindow Algorithm = iota + 1
	// FixedWindow admits at most Requests in each epoch-aligned window, as envoyproxy/ratelimit does.
	FixedWindow
	// SlidingLog admits as SlidingWindow does, but stores the instant of each hit, which counts for exactly one Window.
	SlidingLog
	// TokenBucket admits Burst at once and Requests a Window in the long run: hits leak evenly, Requests in each
	// Window, and a check fits if what has not leaked stays within Burst (GCRA).
	TokenBucket
)

// AlgorithmNames lists what [ParseAlgorithm] accepts, in the order of the algorithms, for error messages.
const AlgorithmNames = "sliding_window, fixed_window, sliding_log, token_bucket"

var algorithmNames = strings.Split(AlgorithmNames, ", ")

// Algorithms returns all algorithms, in their order.
func Algorithms() []Algorithm {
	all := make([]Algorithm, len(algorithmNames))
	for i := range all {
		all[i] = SlidingWindow + Algorithm(i)
	}
	return all
}

// ParseAlgorithm reads the name that files and the ALGORITHM variable use.
func ParseAlgorithm(name string) (Algorithm, error) {
	return parseName[Algorithm](name, "an algorithm", AlgorithmNames)
}

// parseName returns the position of a name among the listed ones, from 1. what names their kind in the error.
func parseName[T ~uint8](name, what, listed string) (T, error) {
	if i := slices.Index(strings.Split(listed, ", "), name); i >= 0 {
		return T(i + 1), nil
	}
	return 0, fmt.Errorf("%s is not %s: use one of %s", Quote(name), what, listed)
}

// UnmarshalText reads a name as [ParseAlgorithm] does.
func (a *Algorithm) UnmarshalText(name []byte) (err error) {
	*a, err = ParseAlgorithm(string(name))
	return err
}

// MarshalText returns the algorithm's name in files.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String returns the algorithm's name in files.
func (a Algorithm) String() string {
	if a < SlidingWindow || int(a) > len(algorithmNames) {
		return fmt.Sprintf("algorithm(%d)", uint8(a))
	}
	return algorithmNames[a-SlidingWindow]
}

// Charge says which checks are counted.
type Charge uint8

const (
	// ChargeByAlgorithm is the zero value: fixed windows count all checks, other algorithms admitted ones.
	ChargeByAlgorithm Charge = iota
	// ChargeAdmitted counts a check only if all limits of its descriptor admit it.
	ChargeAdmitted
	// ChargeAlways counts every check, even a denied one.
	ChargeAlways
)

// ChargeNames lists what [ParseCharge] accepts, in the order of the charges, for error messages.
const ChargeNames = "admitted, always"

// ParseCharge reads a rule's charge key.
func ParseCharge(name string) (Charge, error) {
	return parseName[Charge](name, "a charge", ChargeNames)
}

// Always reports whether a check against l is counted even when it is denied, given its rule's charge.
func (c Charge) Always(l *Limit) bool {
	if c == ChargeByAlgorithm {
		return l.Algorithm == FixedWindow
	}
	return c == ChargeAlways
}

// Limit allows Requests hits in a Window. Its state in a store belongs to (Algorithm, Window, Precision), so a change
// of Requests or Burst keeps the count. Make a Limit with [NewLimit] and [Limit.WithBurst], which validate it.
type Limit struct {
	Requests  uint64        // hits allowed in a window; 0 blocks everything
	Window    time.Duration // how long a hit counts; from 1 s to 292 years
	Precision time.Duration // width of the finest bucket of a sliding window; 0 for the other algorithms
	Algorithm Algorithm
	Burst     uint64 // hits that a token bucket has room for, 0 if Requests is; 0 for the other algorithms

	// The fields of current_limit in the answer. Window is Multiplier × Unit; Multiplier is at least 1.
	Unit       Unit
	Multiplier uint32
	Name       string // escaped by [HeaderName]
}

const (
	day = 24 * time.Hour
	// maxBuckets bounds the buckets of a sliding window on its finest level.
	maxBuckets = 100_000
	// maxExactWindow keeps times of logs and ages in token buckets below 2^53 µs, which Redis scripts compute exactly.
	maxExactWindow = 73_000 * day
)

// MaxBurst is the largest burst of a token bucket. Its state may count more, by the hits that leak in a window, and a
// Redis script counts exactly up to 2^53.
const MaxBurst = 1 << 52

// ladder has the possible widths of buckets, finest first. Each divides the next.
var ladder = [...]time.Duration{50 * time.Millisecond, time.Second, time.Minute, time.Hour, day}

// PrecisionNames lists the widths that [ParsePrecision] accepts, finest first, for error messages.
const PrecisionNames = "50ms, 1s, 1m, 1h, 1d"

// ParsePrecision reads a bucket width: a Go duration, or a number of days such as 1d.
func ParsePrecision(text string) (time.Duration, error) {
	width, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		width = time.Duration(n) * day
	}
	if err != nil || !slices.Contains(ladder[:], width) {
		return 0, fmt.Errorf("%s is not a bucket width: use one of %s", Quote(text), PrecisionNames)
	}
	return width, nil
}

// NewLimit makes a limit of requests per multiplier units. A precision of 0 means the default of the window. Its errors
// are meant for the author of a configuration file, and name the remedy.
func NewLimit(requests uint64, u Unit, multiplier uint32, a Algorithm, precision time.Duration) (Limit, error) {
	switch {
	case !u.Known():
		return Limit{}, fmt.Errorf("unknown unit: use one of %s", UnitNames)
	case multiplier == 0:
		return Limit{}, errors.New("unit_multiplier must be at least 1")
	case uint64(multiplier) > uint64(math.MaxInt64/u.Duration()):
		return Limit{}, fmt.Errorf("a window of %d %ss is longer than 292 years", multiplier, u)
	}
	l := Limit{Requests: requests, Window: time.Duration(multiplier) * u.Duration(), Precision: precision, Algorithm: a,
		Unit: u, Multiplier: multiplier}
	var err error
	switch a {
	case SlidingWindow:
		err = l.choosePrecision()
	case FixedWindow:
		if precision != 0 {
			err = errors.New("precision has no meaning for fixed_window: leave it out")
		}
	case SlidingLog:
		err = l.checkExact()
	case TokenBucket:
		l.Burst = requests
		if err = l.checkExact(); err == nil && requests > MaxBurst {
			err = fmt.Errorf("%d requests are too many for token_bucket: at most %d", requests, uint64(MaxBurst))
		}
	default:
		err = fmt.Errorf("unknown algorithm: use one of %s", AlgorithmNames)
	}
	if err != nil {
		return Limit{}, err
	}
	return l, nil
}

// WithBurst returns the limit with a burst, for a token bucket with more than 0 requests. The burst is 1 to [MaxBurst].
// Its errors are meant for the author of a configuration file.
func (l Limit) WithBurst(burst uint64) (Limit, error) {
	switch {
	case l.Algorithm != TokenBucket:
		return Limit{}, fmt.Errorf("burst has no meaning for %s: leave it out, or use token_bucket", l.Algorithm)
	case l.Requests == 0:
		return Limit{}, errors.New("burst has no meaning beside 0 requests, which block everything: leave it out")
	case burst == 0 || burst > MaxBurst:
		return Limit{}, fmt.Errorf("a burst of %d is out of range: from 1 to %d", burst, uint64(MaxBurst))
	}
	l.Burst = burst
	return l, nil
}

// Capacity returns how many hits fit at once if no hits count: Burst for a token bucket, else Requests.
func (l *Limit) Capacity() uint64 {
	if l.Algorithm == TokenBucket {
		return l.Burst
	}
	return l.Requests
}

// checkExact returns an error for a precision, and for a window that is too long to be exact to the microsecond.
func (l *Limit) checkExact() error {
	if l.Precision != 0 {
		return fmt.Errorf("precision has no meaning for %s, which is exact to the microsecond: leave it out", l.Algorithm)
	}
	if l.Window > maxExactWindow {
		return l.tooLong(maxExactWindow)
	}
	return nil
}

func (l *Limit) tooLong(longest time.Duration) error {
	return fmt.Errorf("a window of %s is too long for %s: at most %d days", shortDuration(l.Window), l.Algorithm, longest/day)
}

// choosePrecision sets the default precision if there is none, and returns an error for one that the window cannot
// have.
func (l *Limit) choosePrecision() error {
	if l.Window > maxBuckets*day {
		return l.tooLong(maxBuckets * day)
	}
	if l.Precision == 0 {
		finest, _ := defaultLevels(l.Window)
		l.Precision = ladder[finest]
	}
	fits := func(width time.Duration) bool { return (l.Window-1)/width < maxBuckets }
	switch {
	case !slices.Contains(ladder[:], l.Precision):
		return fmt.Errorf("precision %s is not a bucket width: use one of %s", shortDuration(l.Precision), PrecisionNames)
	case l.Precision >= l.Window:
		return fmt.Errorf("precision %s must be below the window of %s", shortDuration(l.Precision), shortDuration(l.Window))
	case !fits(l.Precision):
		finest := ladder[slices.IndexFunc(ladder[:], fits)] // days always fit
		return fmt.Errorf("precision %s is too fine for a window of %s: at most %d buckets fit, so use %s or coarser",
			shortDuration(l.Precision), shortDuration(l.Window), maxBuckets, shortDuration(finest))
	}
	return nil
}

// shortDuration formats a duration without the zero units of Go's format: 1d, 1h, 1m30s.
func shortDuration(d time.Duration) string {
	if d%day == 0 && d != 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return withoutZeros.Replace(d.String())
}

var withoutZeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// SameState reports whether l and m share the state of a key.
func (l *Limit) SameState(m *Limit) bool {
	return l.Algorithm == m.Algorithm && l.Window == m.Window && l.Precision == m.Precision
}

// Covers reports whether m, in the same rule, never denies a check that l admits: at any moment at least as many hits
// count against l, and at most as many fit. It returns false if that is not certain, as for different algorithms.
func (l *Limit) Covers(m *Limit) bool {
	switch {
	case l.Algorithm != m.Algorithm || l.Capacity() > m.Capacity():
		return false
	case l.Algorithm == FixedWindow:
		return l.Window%m.Window == 0 // else l can begin again while m goes on
	case l.Algorithm == TokenBucket: // l must not leak faster
		ownHigh, own := bits.Mul64(l.Requests, uint64(m.Window))
		high, low := bits.Mul64(m.Requests, uint64(l.Window))
		return ownHigh < high || ownHigh == high && own <= low
	}
	return l.Window >= m.Window && (l.Precision >= m.Precision || l.Window >= m.Window+m.Precision)
}

// Mixed reports whether some but not all limits are sliding logs; such limits cannot be in one rule.
func Mixed(limits []Limit) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool {
		return (l.Algorithm == SlidingLog) != (limits[0].Algorithm == SlidingLog)
	})
}

// String returns the limit for people: 10/minute, or 10/5minute with a multiplier.
func (l Limit) String() string { return string(l.Append(nil)) }

// Append appends the result of String. It allocates only to grow dst.
func (l *Limit) Append(dst []byte) []byte {
	dst = append(strconv.AppendUint(dst, l.Requests, 10), '/')
	if l.Multiplier > 1 {
		dst = strconv.AppendUint(dst, uint64(l.Multiplier), 10)
	}
	return append(dst, l.Unit.String()...)
}

// Levels returns the bucket widths of the limit, finest first: the window of a fixed window, a microsecond for a log,
// none for a token bucket. The result is shared and must not be changed.
func (l *Limit) Levels() []time.Duration {
	switch l.Algorithm {
	case FixedWindow:
		return []time.Duration{l.Window}
	case SlidingLog:
		return []time.Duration{time.Microsecond}
	case TokenBucket:
		return nil
	}
	finest := slices.Index(ladder[:], l.Precision)
	_, coarsest := defaultLevels(l.Window)
	return ladder[finest : max(finest, coarsest)+1]
}

// Describe describes the limit with its algorithm and parameters, for people: 5/minute  token_bucket of 1m, burst 10.
func (l *Limit) Describe() string {
	text := fmt.Sprintf("%s  %s of %s", l, l.Algorithm, shortDuration(l.Window))
	switch l.Algorithm {
	case SlidingWindow:
		text += ", buckets of " + strings.Join(l.LevelNames(), ", ")
	case SlidingLog:
		text += ", exact to the microsecond"
	case TokenBucket:
		text += fmt.Sprintf(", burst %d", l.Burst)
	}
	return text
}

// Bound returns the most hits that are admitted in any half-open interval as long as the window, unless the store loses
// its count. For people, why says the reason, and which hits may be denied too early, without regard to leases. c is
// the charge of the rule.
func (l *Limit) Bound(c Charge) (most uint64, why string) {
	most, text := l.Requests, shortDuration(l.Window)
	early := ", and nothing is denied too early"
	switch l.Algorithm {
	case SlidingWindow:
		why = "the oldest bucket counts whole until all of it is out"
		early = fmt.Sprintf(", so a hit may be denied up to %s too early", shortDuration(l.Precision))
	case FixedWindow:
		most *= 2
		why = fmt.Sprintf("%d just before a multiple of %s since 1970, and as many just after it", l.Requests, text)
	case SlidingLog:
		why = "each hit counts for exactly the window"
	case TokenBucket:
		most += l.Burst
		why = fmt.Sprintf("%d at once, and those for which room leaks free meanwhile", l.Burst)
		early = fmt.Sprintf("; a hit may be denied though fewer than %d came in %s, as %[1]d do not fit at once", l.Requests, text)
		if l.Burst >= l.Requests {
			early = ", and nothing is denied before " + strconv.FormatUint(l.Requests, 10) + " came within " + text
		}
	}
	switch {
	case c.Always(l) && l.Algorithm == FixedWindow:
		early += " but by a denied request of several hits, which uses up its window"
	case c.Always(l):
		early += "; denied hits count too, so that a caller who goes on asking may stay denied"
	}
	return most, fmt.Sprintf("at most %d in any %s: %s%s", most, text, why, early)
}

// LevelNames returns the levels for people: 1s, 1m.
func (l *Limit) LevelNames() []string {
	var names []string
	for _, width := range l.Levels() {
		names = append(names, shortDuration(width))
	}
	return names
}

// defaultLevels returns the indexes into ladder of the finest and the coarsest level of a window.
func defaultLevels(window time.Duration) (finest, coarsest int) {
	switch {
	case window <= 10*time.Second:
		return 0, 1
	case window <= 10*time.Minute:
		return 1, 2
	case window <= 2*day:
		return 2, 3
	case window <= 60*day:
		return 3, 4
	}
	return 4, 4
}
