// Package screen shows the connections of Services on a terminal: a table that can be sorted
// and searched, and one Service with its frontends, endpoints and nodes.
//
//	top.Source --Answer--> top.Table --selected row--> pane --visible rows--> View
//	                           ^                        ^
//	                     previous sheet                keys
//
// Package top of the node's program has the tables; this one has what needs a terminal.
package screen

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"kube-vmap/cmd/inspect/top"
)

// Run shows connections until the user or the context ends it, which is no error. An error
// of the first query is returned; later ones are shown.
func Run(ctx context.Context, c top.Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ask := top.NewPoll(ctx, c.Source, c.Interval)
	overview := top.NewOverview(c)
	first, err := ask(overview.Query())
	if err == nil {
		overview.Show(overview.SheetOf(first, nil))
		// Signals end the context.
		program := tea.NewProgram(newModel(ask, c.Interval, overview), tea.WithContext(ctx),
			tea.WithOutput(c.Out), tea.WithoutSignalHandler())
		if _, err = program.Run(); err != nil {
			err = fmt.Errorf("show on the terminal: %w", err)
		}
	}
	if ctx.Err() == nil {
		return err
	}
	return nil
}
