package trace

import "github.com/spf13/pflag"

// AddTo adds the flags of the options.
func (o *Options) AddTo(f *pflag.FlagSet) {
	f.IntVar(&o.Count, "count", 0, "with --trace: end after this number of `packets`; 0 means no limit")
	f.DurationVar(&o.Timeout, "timeout", 0, "with --trace: end after this `time`; 0 means no limit")
	f.BoolVar(&o.Every, "every", false, "with --trace: follow every packet, not only those that open a connection")
	f.BoolVar(&o.Replies, "replies", false, "with --trace: follow replies, too")
	f.Uint32Var(&o.Rate, "rate", 10, "with --trace: follow at most this number of `packets` per second")
}
