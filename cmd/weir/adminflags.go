package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// portFlags are those of the commands that ask the admin port of a running weir.
type portFlags struct {
	Admin   string          `placeholder:"HOST:PORT" help:"Weir's admin port; 127.0.0.1:6070, or what DEBUG_HOST and DEBUG_PORT say."`
	Token   adminport.Token `name:"token-file" env:"ADMIN_TOKEN_FILE,ADMIN_READ_TOKEN_FILE" placeholder:"FILE" help:"File that holds the token of ADMIN_TOKEN_FILE or, to read values alone, of ADMIN_READ_TOKEN_FILE."`
	Timeout time.Duration   `default:"5s" help:"How long to wait for the answer."`
	JSON    bool            `name:"json" help:"Print the answer as JSON."`
}

// ask sends a request, prints the answer and returns it. View writes it for people.
func ask[A any](ctx context.Context, out terminal.Output, f *portFlags, method, path string, query url.Values,
	view func(*A) string) (*A, error) {
	for name := range query {
		if err := terminal.CheckUTF8(query.Get(name)); err != nil {
			return nil, err
		}
	}
	if f.Admin == "" {
		var err error
		if f.Admin, err = config.AdminAddress(); err != nil {
			return nil, err
		}
	}
	port := adminport.Port{Address: f.Admin, Timeout: f.Timeout, Token: f.Token}
	body, err := port.Ask(ctx, method, path, query)
	if err != nil {
		return nil, err
	}
	answer := new(A)
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("%s does not answer as weir does: %w", f.Admin, err)
	}
	if f.JSON {
		_, err = out.Out.Write(terminal.EscapeInvisible(body))
	} else {
		_, err = io.WriteString(out.Out, view(answer))
	}
	return answer, err
}

// withCommand adds the name of its command to an error, nil to none, and makes it printable.
func withCommand(command string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s", command, terminal.Printable(err.Error()))
}

// checkDescriptor returns an error, which names the flag, unless a text is one descriptor.
func checkDescriptor(text string) error {
	if all := descriptors.SplitRequest(text); len(all) > 1 {
		return fmt.Errorf("--descriptor: %q has %d descriptors, joined by +: ask for one of them", text, len(all))
	}
	if _, err := descriptors.ParseDescriptor(text); err != nil {
		return fmt.Errorf("--descriptor: %w", err)
	}
	return nil
}

// readable returns a path as people read it, for a terminal.
func readable(path string) string { return terminal.Printable(descriptors.ReadablePath(path)) }
