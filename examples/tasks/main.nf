// Runs all tasks of a file in batches, wherever Nextflow runs jobs, and makes the result of them:
//
//     shardwright plan repack run.ome.zarr archive.ome.zarr --codec zstd > tasks.jsonl
//     nextflow run examples/tasks/main.nf --tasks $PWD/tasks.jsonl
params.tasks = 'tasks.jsonl'
params.batch = 100

process batch {
    // 75: what failed has not to do with the tasks. Any other exit code lets the tasks that run end, and no more begin.
    errorStrategy { task.exitStatus == 75 && task.attempt <= 5 ? 'retry' : 'finish' }
    // Else it is 1, whatever the strategy says.
    maxRetries 5
    input: val range
    output: path 'receipts.jsonl'
    script: "shardwright run-task '${file(params.tasks)}' --range $range --json > receipts.jsonl"
}

process finish {
    input: path('receipts*.jsonl')
    output: stdout
    script: "shardwright finish '${file(params.tasks)}'"
}

workflow {
    def plan = file(params.tasks).withReader { reader -> reader.readLine() }
    def count = new groovy.json.JsonSlurper().parseText(plan).tasks as int
    def size = params.batch as int
    def firsts = (0..<count).step(size)
    batch(channel.fromList(firsts.collect { first -> "$first:${Math.min(first + size, count)}" }))
    // A plan without tasks has a result, too.
    finish(batch.out.collect().ifEmpty([])) | view
}
