package promql

import (
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// maxHeld is how much of an answer is held before it begins to be written, in bytes: a dashboard's panel fits.
const maxHeld = 512 << 10

// encoder writes JSON as Prometheus does. What does not fit into its buffer goes out at once, so that an answer is never
// in memory twice.
type encoder struct {
	to    io.Writer
	begin func() // is called before the first byte is written
	held  []byte
	begun bool
	err   error // of writing: the client is gone
}

func (e *encoder) raw(text string) { e.held = append(e.held, text...) }

// text writes a string. What HTML gives a meaning is escaped: names come from requests.
func (e *encoder) text(s string) {
	quoted, _ := json.Marshal(s) // no string fails
	e.held = append(e.held, quoted...)
}

// pause writes what is held if that is much.
func (e *encoder) pause() {
	if len(e.held) >= maxHeld {
		e.flush()
	}
}

func (e *encoder) flush() {
	if !e.begun {
		e.begun = true
		e.begin()
	}
	if e.err == nil {
		_, e.err = e.to.Write(e.held)
	}
	e.held = e.held[:0]
}

// answer writes all of an answer, some of which may be held afterwards.
func (e *encoder) answer(a *answer) {
	if a.err != nil {
		e.raw(`{"status":"error","errorType":`)
		e.text(a.kind.name)
		e.raw(`,"error":`)
		e.text(a.err.Error())
	} else {
		e.raw(`{"status":"success","data":`)
		a.data(e)
	}
	e.list(`,"warnings":`, a.warnings)
	e.list(`,"infos":`, a.infos)
	e.raw("}")
}

// list writes strings behind a name, and nothing if there are none.
func (e *encoder) list(name string, all []string) {
	if len(all) > 0 {
		e.raw(name)
		e.texts(all)
	}
}

func (e *encoder) texts(all []string) {
	e.raw("[")
	for i, s := range all {
		e.comma(i)
		e.text(s)
		e.pause()
	}
	e.raw("]")
}

func (e *encoder) comma(i int) {
	if i > 0 {
		e.raw(",")
	}
}

func (e *encoder) labels(l labels.Labels) {
	e.raw("{")
	i := 0
	l.Range(func(one labels.Label) {
		e.comma(i)
		i++
		e.text(one.Name)
		e.raw(":")
		e.text(one.Value)
	})
	e.raw("}")
}

// moment writes Unix milliseconds as seconds, with as many digits as are needed.
func (e *encoder) moment(ms int64) {
	if ms < 0 {
		e.raw("-")
		ms = -ms
	}
	e.held = strconv.AppendInt(e.held, ms/1000, 10)
	if part := ms % 1000; part != 0 {
		e.raw(".")
		e.raw(strconv.FormatInt(1000+part, 10)[1:])
	}
}

// value writes a float as a string, which JSON's numbers could not always hold: NaN, +Inf and -Inf are among them.
func (e *encoder) value(v float64) {
	form := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	e.raw(`"`)
	e.held = strconv.AppendFloat(e.held, v, form, -1, 64)
	e.raw(`"`)
}

func (e *encoder) point(ms int64, v float64) {
	e.raw("[")
	e.moment(ms)
	e.raw(",")
	e.value(v)
	e.raw("]")
}

// result writes what a query evaluates to. Histograms do not occur: the history has none, and no function makes one.
func (e *encoder) result(v parser.Value) {
	switch v := v.(type) {
	case promql.Matrix:
		e.matrix(v)
	case promql.Vector:
		e.vector(v)
	case promql.Scalar:
		e.raw("[")
		e.moment(v.T)
		e.raw(`,"`)
		e.held = strconv.AppendFloat(e.held, v.V, 'f', -1, 64) // as Prometheus writes scalars alone
		e.raw(`"]`)
	case promql.String:
		e.raw("[")
		e.moment(v.T)
		e.raw(",")
		e.text(v.V)
		e.raw("]")
	default:
		e.raw("[]")
	}
}

func (e *encoder) vector(v promql.Vector) {
	e.raw("[")
	for i, s := range v {
		e.comma(i)
		e.raw(`{"metric":`)
		e.labels(s.Metric)
		e.raw(`,"value":`)
		e.point(s.T, s.F)
		e.raw("}")
		e.pause()
	}
	e.raw("]")
}

func (e *encoder) matrix(m promql.Matrix) {
	e.raw("[")
	for i, s := range m {
		e.comma(i)
		e.raw(`{"metric":`)
		e.labels(s.Metric)
		e.raw(`,"values":[`)
		for j, p := range s.Floats {
			e.comma(j)
			e.point(p.T, p.F)
			e.pause()
		}
		e.raw("]}")
	}
	e.raw("]")
}
