package answer

import (
	"fmt"
	"strings"
)

// Change is how an open connection would now be treated otherwise: its own packets, or a new
// connection in its place.
type Change struct {
	Kind string `json:"kind"` // see [ChangeStopped]
	// Verdict, How, By and Because are those of the outcome, or of the reply.
	Verdict string   `json:"verdict,omitempty"`
	How     string   `json:"how,omitempty"`
	By      *RuleRef `json:"by,omitempty"`
	Because string   `json:"because,omitempty"`
	Field   string   `json:"field,omitempty"` // of the Service or endpoint, which leads to Because
	// Sees is the client's address as the endpoint would see it, for the reason Why.
	Sees string `json:"sees,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Kinds of changes.
const (
	ChangeStopped      = "stopped"       // its packets no longer arrive
	ChangeReplyStopped = "reply stopped" // the client no longer gets replies
	ChangeRefused      = "refused"       // a new connection would not arrive
	ChangeEndpoint     = "endpoint"      // no new connection would go to the endpoint
	ChangeSource       = "source"        // the endpoint would see another client
)

// text returns the change as part of a sentence.
func (c *Change) text() string {
	end := c.Verdict
	switch c.Verdict {
	case VerdictRefused:
		end = "refused with " + c.How
	case VerdictUnreachable:
		end = "not sent on: " + c.How
	case VerdictDelivered:
		end = "not translated back"
	}
	end += byText(c.By, c.Because) + fieldText(c.Field)
	switch c.Kind {
	case ChangeStopped:
		return "its packets are now " + end
	case ChangeReplyStopped:
		return "its replies are now " + end
	case ChangeRefused:
		return "a new connection would be " + end
	case ChangeSource:
		text := "a new connection would be seen as from " + c.Sees
		if c.Why != "" {
			text += " (" + c.Why + ")"
		}
		return text
	}
	text := "no new connection would go there"
	if c.Because != "" {
		text += ": " + c.Because + fieldText(c.Field)
	}
	return text
}

// text prints the connection and its changes.
func (c *Connection) text(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", c.line())
	for i := range c.Changes {
		fmt.Fprintf(b, "    %s\n", c.Changes[i].text())
	}
	if c.Stale && len(c.Changes) == 0 { // in answers of versions that do not know changes
		b.WriteString("    no new connection would go there\n")
	}
}

// isChanged reports whether the connection would now be treated otherwise.
func (c *Connection) isChanged() bool { return c.Stale || len(c.Changes) > 0 }
