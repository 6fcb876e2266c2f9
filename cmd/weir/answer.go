package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// asked is a command that asks the admin port of a running weir.
type asked struct {
	command, port string // as messages call them
	asJSON        bool   // print the answer as it came
}

// printAnswer prints what the port answered, or returns why it did not, with the command's name. View writes an answer for
// people.
func printAnswer[A any](out terminal.Output, a asked, body []byte, err error, view func(*A) string) error {
	if err != nil {
		return fmt.Errorf("%s: %s", a.command, terminal.Printable(err.Error()))
	}
	if a.asJSON {
		_, err = out.Out.Write(terminal.EscapeInvisible(body))
		return err
	}
	var answer A
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %s does not answer as weir does: %w", a.command, a.port, err)
	}
	_, err = io.WriteString(out.Out, view(&answer))
	return err
}

// setNames adds to a query the names that are given.
func setNames(query url.Values, given map[string]string) error {
	for name, text := range given {
		if err := terminal.CheckUTF8(text); err != nil {
			return err
		}
		if text != "" {
			query.Set(name, text)
		}
	}
	return nil
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

// adminAddress returns what --admin says or, where it is not given, what the environment says.
func adminAddress(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	return config.AdminAddress()
}
