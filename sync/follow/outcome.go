package follow

import "log/slog"

// An Outcome logs when repeated work starts to fail, and when it succeeds again.
type Outcome struct{ failing bool }

// Log logs that the work failed with an error or that it succeeded, unless it did before, too.
func (o *Outcome) Log(log *slog.Logger, err error, failed, again string) {
	switch {
	case err != nil && !o.failing:
		log.Warn(failed, "err", err) //nolint:sloglint // a constant of the caller
	case err == nil && o.failing:
		log.Info(again) //nolint:sloglint // a constant of the caller
	}
	o.failing = err != nil
}
