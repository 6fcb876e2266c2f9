package promql

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// bufferSize is the size of the buffer in bytes: the answer for a dashboard's panel fits.
const bufferSize = 512 << 10

// encoder writes JSON as Prometheus does. It writes through a small buffer, so that an answer is never in memory twice.
type encoder struct {
	to     http.ResponseWriter
	status int // of the answer; 0 once it is written
	buffer []byte
	err    error // of writing: the client is gone
}

func (e *encoder) raw(text string) { e.buffer = append(e.buffer, text...) }

// json writes a small value. It escapes HTML, as names come from requests.
func (e *encoder) json(value any) {
	text, _ := json.Marshal(value) // for strings and times it cannot fail
	e.buffer = append(e.buffer, text...)
}

func (e *encoder) flush() {
	if e.status != 0 {
		e.to.WriteHeader(e.status)
		e.status = 0
	}
	if e.err == nil {
		_, e.err = e.to.Write(e.buffer)
	}
	e.buffer = e.buffer[:0]
}

// body writes an answer, the end of which may stay in the buffer.
func (e *encoder) body(a *answer) {
	if a.err != nil {
		e.raw(`{"status":"error","errorType":`)
		e.json(a.errorType.name)
		e.raw(`,"error":`)
		e.json(a.err.Error())
	} else {
		e.raw(`{"status":"success","data":`)
		a.data(e)
	}
	e.list(`,"warnings":`, a.warnings)
	e.list(`,"infos":`, a.infos)
	e.raw("}")
}

// list writes a name and its strings, or nothing without strings.
func (e *encoder) list(name string, all []string) {
	if len(all) > 0 {
		e.raw(name)
		e.json(all)
	}
}

// each writes a list of n items by calling write for each.
func (e *encoder) each(n int, write func(i int)) {
	e.raw("[")
	for i := range n {
		if i > 0 {
			e.raw(",")
		}
		write(i)
		if len(e.buffer) >= bufferSize {
			e.flush()
		}
	}
	e.raw("]")
}

// value writes a float as a string, since JSON's numbers have no NaN, +Inf and -Inf.
func (e *encoder) value(v float64) {
	form := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	e.raw(`"`)
	e.buffer = strconv.AppendFloat(e.buffer, v, form, -1, 64)
	e.raw(`"`)
}

// point writes a moment (given in Unix milliseconds, written in seconds) and a value.
func (e *encoder) point(ms int64, v float64) {
	e.raw("[")
	e.buffer = strconv.AppendFloat(e.buffer, float64(ms)/1000, 'f', -1, 64)
	e.raw(",")
	e.value(v)
	e.raw("]")
}

// result writes the result of a query. Neither the history nor a function makes histograms.
func (e *encoder) result(v parser.Value) {
	switch v := v.(type) {
	case promql.Matrix:
		e.each(len(v), func(i int) {
			e.raw(`{"metric":`)
			e.json(v[i].Metric)
			e.raw(`,"values":`)
			e.each(len(v[i].Floats), func(j int) { e.point(v[i].Floats[j].T, v[i].Floats[j].F) })
			e.raw("}")
		})
	case promql.Vector:
		e.each(len(v), func(i int) {
			e.raw(`{"metric":`)
			e.json(v[i].Metric)
			e.raw(`,"value":`)
			e.point(v[i].T, v[i].F)
			e.raw("}")
		})
	default: // promql.Scalar and promql.String, which marshal themselves
		e.json(v)
	}
}
