package isolate

const memfdCreate = 319
