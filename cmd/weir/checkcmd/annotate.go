package checkcmd

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// What GitHub's workflow commands escape: in a message, and in a property, which ends at a comma or a colon.
var (
	githubMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotate prints each problem as a workflow command, which GitHub Actions shows beside the line, and a last line for people.
func (c *Command) annotate(out io.Writer, x *checked) error {
	var b bytes.Buffer
	for i := range x.problems {
		p := &x.problems[i]
		title := cmp.Or(p.About(), "weir check")
		message := p.Text
		if p.Part != "" {
			message = p.Part + ": " + message
		}
		fmt.Fprintf(&b, "::%s ", c.severity(p))
		if p.File != "" && c.Path != "-" { // what came from standard input is in no repository
			fmt.Fprintf(&b, "file=%s,", githubProperty.Replace(x.path(p.File)))
			if p.Line > 0 {
				fmt.Fprintf(&b, "line=%d,", p.Line)
			}
		} else if p.File != "" {
			message = p.File + ":" + strconv.Itoa(p.Line) + ": " + message
		}
		fmt.Fprintf(&b, "title=%s::%s\n", githubProperty.Replace(title), githubMessage.Replace(message))
	}
	errs, warnings := c.count(x.problems)
	fmt.Fprintf(&b, "%s: %s, %s\n", name(c.Path), terminal.Count(errs, "error"), terminal.Count(warnings, "warning"))
	_, err := out.Write(b.Bytes())
	return err
}
