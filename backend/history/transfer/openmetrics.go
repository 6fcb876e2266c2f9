package transfer

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

// family is a metric family: a counter, with the name that it also has in /metrics and PromQL.
type family struct {
	name, help string
	outcomes   []history.Outcome
}

var families = []family{
	{"weir_hits", "Hits by outcome.", []history.Outcome{history.Within, history.Over, history.Shadow, history.Degraded}},
	{"weir_near_hits", "Hits that were within a limit, but close to it.", []history.Outcome{history.Near}},
}

// metricsWriter is a [Writer] of OpenMetrics 1.0 text.
type metricsWriter struct {
	w       io.Writer
	written history.Range
	now     int64
	family  string // family of the last series
	samples []history.Sample
	text    []byte
}

// Write writes a sample of a series at each border of its buckets.
func (m *metricsWriter) Write(s *history.Series) (n int, err error) {
	f := families[slices.IndexFunc(families, func(f family) bool { return slices.Contains(f.outcomes, s.ID.Outcome) })]
	m.samples = s.AppendSamples(m.samples[:0], m.now)
	for _, sample := range m.samples {
		if !m.written.Has(sample.At) {
			continue
		}
		m.text = m.text[:0]
		if m.family != f.name {
			m.family = f.name
			m.text = fmt.Appendf(m.text, "# HELP %s %s\n# TYPE %[1]s counter\n", f.name, f.help)
		}
		m.text = appendLabels(append(m.text, f.name+"_total{"...), s.ID)
		m.text = fmt.Appendf(m.text, "} %d %d\n", sample.Total, sample.At)
		if _, err := m.w.Write(m.text); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (m *metricsWriter) Close() error {
	_, err := io.WriteString(m.w, "# EOF\n")
	return err
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func appendLabels(dst []byte, id history.ID) []byte {
	label := func(name, value string) {
		dst = append(dst, name+`="`+labelEscaper.Replace(strings.ToValidUTF8(value, "\uFFFD"))+`"`...)
	}
	label("domain", id.Domain)
	label(",path", id.Path)
	if id.Outcome < history.Near {
		label(",outcome", id.Outcome.String())
	}
	if id.Value != "" {
		label(",value", id.Value)
	}
	return dst
}
