package answer

import (
	"fmt"
	"strings"
)

// text prints the connection, and why no new one would go to its endpoint.
func (c *Connection) text(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", c.line())
	if !c.Stale {
		return
	}
	b.WriteString("    no new connection would go there")
	if c.Because != "" {
		b.WriteString(": " + c.Because + fieldText(c.Field))
	}
	b.WriteString("\n")
}
