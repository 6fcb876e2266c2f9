package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/server/connlimit"
	historyapi "github.com/weirproxy/weir/server/history"
)

// maxExports is how many exports may run concurrently. They last as long as their readers, and take little memory.
const maxExports = 1

// ExportTrailer is the HTTP trailer at the end of an export: a [historyapi.Exported] in JSON, percent-escaped. An
// export without it, or whose body has no end, is incomplete.
const ExportTrailer = "Weir-Exported"

// exportHandler serves exports of the history.
func exportHandler(p *Parts) http.HandlerFunc {
	semaphore := make(connlimit.Semaphore, maxExports)
	return func(w http.ResponseWriter, r *http.Request) {
		parameters, err := parametersOf(r)
		switch {
		case err != nil:
		case p.History == nil:
			err = p.errNoHistory()
		case !semaphore.Acquire(r.Context(), queueTimeout):
			err = refuse(http.StatusServiceUnavailable, "Another export of the history is being read.")
		default:
			defer semaphore.Release()
			err = export(w, r, p.History, parameters)
		}
		if err != nil {
			writeError(w, err, historyError)
		}
	}
}

// export writes an export for as long as its reader reads. If it fails after the first byte, the connection is closed,
// so that nobody takes the export for complete.
func export(w http.ResponseWriter, r *http.Request, h *historyapi.History, parameters historyapi.Parameters) error {
	format, err := transfer.ParseFormat(cmp.Or(parameters.Get("format"), string(transfer.CSV)))
	if err != nil {
		return refuse(http.StatusBadRequest, "format: %v.", err)
	}
	mediaType := "text/csv; charset=utf-8"
	if format == transfer.OpenMetrics {
		mediaType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Trailer", ExportTrailer)
	// The server's own write deadline began with the request. A server that does not support another keeps it.
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
	out := &deadlineWriter{w: w, control: control}
	done, err := h.Export(r.Context(), parameters, format, out)
	if err == nil {
		text, _ := json.Marshal(done) // of numbers and strings
		w.Header().Set(ExportTrailer, url.QueryEscape(string(text)))
		return nil
	}
	if out.begun {
		panic(http.ErrAbortHandler) // makes net/http close this connection without a log line
	}
	w.Header().Del("Trailer")
	return err
}

// deadlineWriter sets a write deadline for each part of a long answer, in place of the server's for the whole.
type deadlineWriter struct {
	w       io.Writer
	control *http.ResponseController
	begun   bool
}

func (d *deadlineWriter) Write(text []byte) (int, error) {
	d.begun = true
	_ = d.control.SetWriteDeadline(time.Now().Add(readTimeout)) // no deadline runs while the store reads
	n, err := d.w.Write(text)
	if err != nil {
		return n, fmt.Errorf("the reader is gone, or too slow: %w", err)
	}
	return n, nil
}
