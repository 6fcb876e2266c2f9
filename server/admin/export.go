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

// maxExports is how many exports there are at a time. They take long, as long as their readers do, and little memory.
const maxExports = 1

// ExportTrailer is the HTTP trailer that ends an export: a [historyapi.Exported] in JSON, percent-escaped. An export without
// it is not whole, nor is one whose body has no end.
const ExportTrailer = "Weir-Exported"

// exportHandler writes exports of the history.
func exportHandler(p *Parts) http.HandlerFunc {
	turns := make(connlimit.Semaphore, maxExports)
	return func(w http.ResponseWriter, r *http.Request) {
		parameters, err := parametersOf(r)
		switch {
		case err != nil:
		case p.History == nil:
			err = p.errNoHistory()
		case !turns.Acquire(r.Context(), maxWaitingTime):
			err = refuse(http.StatusServiceUnavailable, "Another export of the history is being read.")
		default:
			defer turns.Release()
			err = export(w, r, p.History, parameters)
		}
		if err != nil {
			writeError(w, err, historyError)
		}
	}
}

// export writes an export for as long as its reader reads. One that fails once something has been sent is cut off, so
// that nobody takes it for whole.
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
	// The server's own bound began with the request. A server that cannot be told keeps it.
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(maxQuestionTime))
	out := &deadlineWriter{w: w, control: control}
	done, err := h.Export(r.Context(), parameters, format, out)
	if err == nil {
		text, _ := json.Marshal(done) // of numbers and strings
		w.Header().Set(ExportTrailer, url.QueryEscape(string(text)))
		return nil
	}
	if out.begun {
		panic(http.ErrAbortHandler) // net/http's way to cut an answer off: it ends this connection, and is not logged
	}
	w.Header().Del("Trailer")
	return err
}

// deadlineWriter gives the reader of a long answer time for each part of it, which the server's own bound would not.
type deadlineWriter struct {
	w       io.Writer
	control *http.ResponseController
	begun   bool
}

func (d *deadlineWriter) Write(text []byte) (int, error) {
	d.begun = true
	_ = d.control.SetWriteDeadline(time.Now().Add(maxReadingTime)) // while the store reads, there is none
	n, err := d.w.Write(text)
	if err != nil {
		return n, fmt.Errorf("the reader is gone, or too slow: %w", err)
	}
	return n, nil
}
