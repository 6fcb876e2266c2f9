package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// portFlags are the flags of commands that send requests to the admin port of a running weir.
type portFlags struct {
	//lint:ignore SA5008 kong takes each set
	adminport.Port `set:"admin=" set:"timeout=5s"`
	JSON           bool `name:"json" help:"Print the answer as JSON."`
}

// ask sends a request, prints the answer and returns it. view formats the answer as text, unless --json is set.
func ask[A any](ctx context.Context, out terminal.Output, f *portFlags, method, path string, query url.Values,
	view func(*A) string) (*A, error) {
	f.Address = cmp.Or(f.Address, config.AdminAddress())
	body, err := f.Ask(ctx, method, path, query)
	if err != nil {
		return nil, err
	}
	answer := new(A)
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("%s does not answer as weir does: %w", f.Address, err)
	}
	if f.JSON {
		_, err = out.Out.Write(terminal.EscapeInvisible(body))
	} else {
		_, err = io.WriteString(out.Out, view(answer))
	}
	return answer, err
}

// checkDescriptor returns an error unless text is one descriptor. The error names the flag.
func checkDescriptor(text string) error {
	if all := descriptors.SplitRequest(text); len(all) > 1 {
		return fmt.Errorf("--descriptor: %q has %d descriptors, joined by +: ask for one of them", text, len(all))
	}
	if _, err := descriptors.ParseDescriptor(text); err != nil {
		return fmt.Errorf("--descriptor: %w", err)
	}
	return nil
}

// readablePath returns the readable form of a path, escaped for a terminal.
func readablePath(path string) string { return descriptors.Printable(descriptors.ReadablePath(path)) }
