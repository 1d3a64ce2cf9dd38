package job

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Together is the engine that has the places of several. It closes them all.
func Together(engines ...Engine) Engine {
	t := &together{engines: engines}
	for _, e := range engines {
		for i, place := range e.Places() {
			t.places = append(t.places, place)
			t.at = append(t.at, placeOf{e, i})
		}
	}
	return t
}

type together struct {
	engines []Engine
	places  []Place
	at      []placeOf // of each place
}

// placeOf is a place of one of the engines.
type placeOf struct {
	engine Engine
	index  int
}

func (t *together) Name() string {
	names := make([]string, len(t.engines))
	for i, e := range t.engines {
		names[i] = e.Name()
	}
	return strings.Join(names, " and ")
}

func (t *together) Places() []Place { return t.places }

func (t *together) NewWorker(ctx context.Context, place int, shape Shape) (Worker, error) {
	at := t.at[place]
	return at.engine.NewWorker(ctx, at.index, shape)
}

func (t *together) Busy(place int) time.Duration { return t.at[place].engine.Busy(t.at[place].index) }

// Rehasher is the first that there is: beside a GPU the cores count for nothing.
func (t *together) Rehasher() Rehasher {
	for _, e := range t.engines {
		if r := e.Rehasher(); r != nil {
			return r
		}
	}
	return nil
}

func (t *together) Close() error {
	var errs []error
	for _, e := range t.engines {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}
